"""Documents in the store: how they are written, read and filtered, and the facts in them."""
