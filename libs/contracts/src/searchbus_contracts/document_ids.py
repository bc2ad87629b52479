"""Ids of documents and of their revisions: the same input gets the same ids, wherever it is read.

Both sides compute them: who sends documents, to skip what is stored already, and the service.
"""

from __future__ import annotations

import hashlib
import uuid

from .codec import canonical
from .ingest import NewDocument

__all__ = ["NAMESPACE", "document_id", "hash_of_text", "revision_of"]

NAMESPACE = uuid.UUID("6f0c3d52-6f3b-5a35-9d0e-3f5b8f0a7c11")
"""Of every id (RFC 4122, version 5)."""
_INDEX_VERSION = 1
"""Increment it when what is embedded of a chunk changes: every document then has a new revision."""


def document_id(collection: str, source_id: str) -> str:
    """The id of a document that its source calls `source_id`."""
    return str(uuid.uuid5(NAMESPACE, f"{collection}/{source_id}"))


def revision_of(document: NewDocument) -> str:
    """32 hex digits over all that is stored; equal content has equal revisions."""
    return hashlib.sha256(b"%d:%s" % (_INDEX_VERSION, canonical(document))).hexdigest()[:32]


def hash_of_text(text: str) -> str:
    """SHA-256 over the UTF-8 of a text, 64 hex digits: what callers compute to see a change."""
    return hashlib.sha256(text.encode()).hexdigest()
