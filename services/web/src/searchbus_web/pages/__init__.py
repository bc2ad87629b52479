"""Parts of pages, and their structured data (toolset `pages`)."""
