"""Search for tools, prompts and resources by meaning."""
