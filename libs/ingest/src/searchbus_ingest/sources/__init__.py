"""Readers of files, folders and the Federal Reserve's site; each yields documents, or why not."""
