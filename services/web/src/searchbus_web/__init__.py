"""Web search and page extraction."""
