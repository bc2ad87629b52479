"""Readers: from files, folders and the Federal Reserve's site to documents cut into chunks.

Every reader yields `Item`s: a document, or the reason why one was skipped.
"""

from .item import Item, make_document

__all__ = ["Item", "make_document"]
