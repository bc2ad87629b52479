"""A real browser at the console."""
