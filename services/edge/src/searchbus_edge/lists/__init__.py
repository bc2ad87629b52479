"""Lists: the registry of tools, prompts and resources, and the pages that clients read of it."""
