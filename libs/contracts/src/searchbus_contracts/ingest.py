"""Typed requests to the retrieval service that write: ingest and delete (§10).

The whole text of a document is sent once; its chunks are offsets into it, in characters (code
points).
"""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta, Struct

from .retrieval import DocumentId, FieldType, Metadata
from .tools import Name

__all__ = [
    "MAX_DOCUMENT_BYTES",
    "Chunk",
    "DeleteReply",
    "DeleteRequest",
    "IngestReply",
    "IngestRequest",
    "IngestResult",
    "NewDocument",
]

MAX_DOCUMENT_BYTES = 16 * 1024 * 1024
"""UTF-8 size of a document's text; a larger one is refused with invalid_argument."""


class Chunk(Struct, frozen=True, kw_only=True, omit_defaults=True, array_like=True):
    """A passage of a document: text[start:end] in characters, and its heading."""

    start: Annotated[int, Meta(ge=0)]
    end: Annotated[int, Meta(ge=1)]
    section: str | None = None


class NewDocument(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A document cut into chunks, ready to be embedded and stored."""

    document_id: DocumentId
    title: Annotated[str, Meta(min_length=1, max_length=1000)]
    text: str
    chunks: Annotated[tuple[Chunk, ...], Meta(min_length=1)]
    url: Annotated[str, Meta(max_length=4096)] | None = None
    metadata: Metadata = {}


class IngestRequest(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Store documents. A repeated request changes nothing; a changed document is replaced."""

    collection: Name
    documents: Annotated[tuple[NewDocument, ...], Meta(min_length=1, max_length=256)]
    fields: Annotated[
        dict[str, FieldType],
        Meta(description="Filterable metadata fields to add to the collection."),
    ] = {}


class IngestResult(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The outcome for one document."""

    document_id: DocumentId
    outcome: Literal["stored", "replaced", "unchanged", "refused"]
    chunks: int = 0
    reason: str | None = None


class IngestReply(Struct, frozen=True, kw_only=True):
    """One result for each document, in order. Reported documents are stored durably."""

    results: tuple[IngestResult, ...]


class DeleteRequest(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Delete documents of a collection; without ids, the collection itself."""

    collection: Name
    document_ids: tuple[DocumentId, ...] = ()


class DeleteReply(Struct, frozen=True, kw_only=True):
    """How many documents were deleted."""

    documents: int
