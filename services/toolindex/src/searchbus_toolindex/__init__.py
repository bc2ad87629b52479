"""Finds tools, prompts and resources among thousands, by meaning and by words."""
