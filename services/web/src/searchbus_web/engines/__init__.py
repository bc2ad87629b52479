"""Searches with several engines: chosen, filtered, in pages (toolset `engines`)."""
