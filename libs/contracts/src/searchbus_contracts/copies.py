"""Typed requests to the retrieval service for a copy of a collection: export and restore (§10).

A copy has the vectors, so that nothing is embedded again, and belongs to no engine.
"""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import Meta, Struct

from .codec import doc
from .retrieval import FieldType
from .tools import Name


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
