"""One attached server through its life: connected, called, connected again after a pause."""
