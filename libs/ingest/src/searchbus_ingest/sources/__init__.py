"""Readers of files, folders and the Federal Reserve's site.

Each yields `Item`s: a document cut into chunks, or the reason why one was skipped.
"""

from .item import Item, make_document

__all__ = ["Item", "make_document"]
