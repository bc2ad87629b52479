"""The order of passages: what a question prefers, and how probable it is that one answers."""
