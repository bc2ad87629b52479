"""Typed requests to the retrieval service that write, and copies of collections (§10).

The whole text of a document is sent once; its chunks are offsets into it, in characters (code
points). The sender and the service compute the same ids and revisions: what is stored already is
not sent again. A copy has the vectors, so that nothing is embedded again, and belongs to no engine.
"""

from __future__ import annotations

import hashlib
import uuid
from typing import Annotated, Any, Literal

from msgspec import Meta, Struct

from .codec import canonical, doc
from .retrieval import DocumentId, FieldType, Metadata
from .tools import Name

MAX_DOCUMENT_BYTES = 16 * 1024 * 1024
"""UTF-8 size of a document's text; a larger one is refused with invalid_argument."""
MAX_URL_CHARS = 4096


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
    url: Annotated[str, Meta(max_length=MAX_URL_CHARS)] | None = None
    metadata: Metadata = {}


class IngestRequest(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Store documents. A repeated request changes nothing; a changed document is replaced."""

    collection: Name
    documents: Annotated[tuple[NewDocument, ...], Meta(min_length=1, max_length=256)]
    fields: Annotated[
        dict[str, FieldType],
        doc(
            "Types of metadata fields, for filters; the values tell those of others. A field that "
            "the collection has with another type is refused with invalid_argument."
        ),
    ] = {}
    staged: Annotated[
        bool, doc("Store into the copy that `retrieval.rebuild` puts in the collection's place.")
    ] = False


class IngestResult(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The outcome for one document."""

    document_id: DocumentId
    outcome: Literal["stored", "replaced", "unchanged", "refused"]
    chunks: int = 0
    reason: Annotated[
        str | None,
        doc("Why it was refused; else which of its values no filter finds exactly, and why."),
    ] = None


class IngestReply(Struct, frozen=True, kw_only=True):
    """One result for each document, in order. Reported documents are stored durably."""

    results: tuple[IngestResult, ...]


class DeleteRequest(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Delete documents of a collection; without ids, the collection itself."""

    collection: Name
    document_ids: tuple[DocumentId, ...] = ()
    staged: Annotated[bool, doc("From the copy that is being made (`retrieval.rebuild`).")] = False


class DeleteReply(Struct, frozen=True, kw_only=True):
    """How many documents were deleted."""

    documents: int


class RebuildRequest(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Make a collection anew while it is searched: begin, ingest with `staged`, end.

    A copy that was begun before is continued, unless new collections have another model now, or it
    has one of the `fields` with another type.
    """

    collection: Name
    step: Annotated[
        Literal["begin", "end"], doc("end: the copy takes the place of the collection.")
    ]
    fields: Annotated[
        dict[str, FieldType], doc("With begin: those that `retrieval.ingest` will declare.")
    ] = {}


class RebuildReply(Struct, frozen=True, kw_only=True):
    """How many documents the copy has."""

    documents: int


_FEW = 2
"""So many documents are deleted also where they are more than half."""


def are_most(gone: int, documents: int) -> bool:
    """Whether so many seem gone that a person must agree: a failing source looks like that."""
    return gone > max(_FEW, documents // 2)


NAMESPACE = uuid.UUID("6f0c3d52-6f3b-5a35-9d0e-3f5b8f0a7c11")
"""Namespace of every id (RFC 4122, version 5)."""
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


class PointCopy(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A record, a passage or a part of a text; numbers are little-endian, in base64."""

    id: Annotated[str, Meta(min_length=1, max_length=64)]
    payload: dict[str, Any]
    dense: Annotated[bytes, doc("float32; empty: it has no vectors.")] = b""
    indices: Annotated[bytes, doc("Term ids, uint32.")] = b""
    values: Annotated[bytes, doc("Weights of the terms, float32.")] = b""


class CollectionCopy(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a collection is made of."""

    fields: dict[str, FieldType]
    model: str
    dimensions: Annotated[int, Meta(ge=1, le=65_536)]
    facts: dict[str, FieldType] = {}


class ExportRequest(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The next documents of a collection, each complete and as it is at one moment."""

    collection: Name
    cursor: Annotated[str, Meta(max_length=1024)] | None = None


class ExportReply(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Some documents; a large one may need several replies."""

    collection: CollectionCopy
    points: tuple[PointCopy, ...] = ()
    documents: Annotated[int, doc("How many documents end in this reply.")] = 0
    next_cursor: str | None = None
    unfinished: Annotated[
        int, doc("So many points at the end are of a document that the next reply continues.")
    ] = 0
    restarted: Annotated[
        bool, doc("That document was replaced or deleted meanwhile: drop what came of it.")
    ] = False


class RestoreRequest(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Store points of a copy beside a collection; `retrieval.rebuild` puts them in its place."""

    collection: Name
    copy: CollectionCopy
    points: Annotated[tuple[PointCopy, ...], Meta(max_length=10_000)] = ()


class RestoreReply(Struct, frozen=True, kw_only=True):
    """How many points were stored; they are durable."""

    points: int
