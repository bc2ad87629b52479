"""Folders, git repositories, feeds and sitemaps that stay in sync with a collection."""
