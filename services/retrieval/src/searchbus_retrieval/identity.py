"""Ids of the points in the store (RFC 4122, version 5); the same input gets the same ids."""

from __future__ import annotations

import uuid

from searchbus_contracts.ingest import NAMESPACE

__all__ = ["background_id", "chunk_id", "collection_record_id", "record_id", "text_id"]


def chunk_id(document: str, revision: str, ordinal: int) -> str:
    """The point of a document's chunk; callers see it as the chunk's id."""
    return str(uuid.uuid5(NAMESPACE, f"chunk/{document}/{revision}/{ordinal}"))


def text_id(document: str, revision: str, ordinal: int) -> str:
    """The point that holds a part of the text."""
    return str(uuid.uuid5(NAMESPACE, f"text/{document}/{revision}/{ordinal}"))


def record_id(document: str) -> str:
    """The point that holds a document's record."""
    return str(uuid.uuid5(NAMESPACE, f"record/{document}"))


def collection_record_id(collection: str) -> str:
    """The point that holds a collection's own record."""
    return str(uuid.uuid5(NAMESPACE, f"collection/{collection}"))


def background_id(collection: str) -> str:
    """The point that keeps what unrelated questions found in the collection."""
    return str(uuid.uuid5(NAMESPACE, f"background/{collection}"))
