"""Stable ids (RFC 4122 v5): the same input gets the same ids, wherever it is ingested."""

from __future__ import annotations

import hashlib
import uuid

from searchbus_contracts import canonical
from searchbus_contracts.retrieval import NewDocument

__all__ = ["chunk_id", "collection_record_id", "document_id", "record_id", "revision_of", "text_id"]

_NAMESPACE = uuid.UUID("6f0c3d52-6f3b-5a35-9d0e-3f5b8f0a7c11")
_INDEX_VERSION = 1
"""Raise it when what is embedded of a chunk changes: everything is then ingested anew."""


def document_id(collection: str, source_id: str) -> str:
    """The id of a document that its source calls `source_id`."""
    return str(uuid.uuid5(_NAMESPACE, f"{collection}/{source_id}"))


def revision_of(document: NewDocument) -> str:
    """32 hex digits over all that is stored; equal content has equal revisions."""
    return hashlib.sha256(b"%d:%s" % (_INDEX_VERSION, canonical(document))).hexdigest()[:32]


def chunk_id(document: str, revision: str, ordinal: int) -> str:
    """The id of a document's chunk, also of its point."""
    return str(uuid.uuid5(_NAMESPACE, f"chunk/{document}/{revision}/{ordinal}"))


def text_id(document: str, revision: str, ordinal: int) -> str:
    """The id of the point that holds a part of the text."""
    return str(uuid.uuid5(_NAMESPACE, f"text/{document}/{revision}/{ordinal}"))


def record_id(document: str) -> str:
    """The id of the point that holds a document's record."""
    return str(uuid.uuid5(_NAMESPACE, f"record/{document}"))


def collection_record_id(collection: str) -> str:
    """The id of the point that holds a collection's own record."""
    return str(uuid.uuid5(_NAMESPACE, f"collection/{collection}"))
