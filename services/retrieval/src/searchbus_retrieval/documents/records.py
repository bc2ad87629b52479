"""The points of a document in the store, of three kinds.

    record      one per document: title, url, metadata, revision. Written last, it is the commit.
    text        the whole text, in parts; no vectors, so no search finds it
    chunk       a passage with its vectors

All have their document's revision, and `live`: false for chunks and text parts until the record is
written, and for the record until they are live. Metadata is under `m` and facts under `f`, so that
no names clash.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Mapping
from datetime import datetime
from types import MappingProxyType
from typing import Any, Literal

from searchbus_contracts.ingest import NAMESPACE, NewDocument, hash_of_text
from searchbus_contracts.retrieval import DocumentSummary, FieldType, Metadata
from searchbus_vectors import AllOf, Equals, Filter

from .where import FieldSpec

TEXT_PART_CHARS = 100_000
_RULES = "."
"""Between the parts of a stored revision."""
_FILTERED = ("document_id", "title", "section", "url")
"""A caller may filter by them."""
OWN_FIELDS: dict[str, FieldType] = {
    "live": "bool", "kind": "keyword", "revision": "keyword",
    **{name: "keyword" for name in _FILTERED},
}  # fmt: skip
"""Indexed in every collection."""
_KINDS: dict[type, FieldType] = {bool: "bool", int: "integer", float: "float"}
_TAKES: dict[FieldType, tuple[FieldType, ...]] = {
    "float": ("float", "integer"), "keyword": ("keyword", "datetime"),
}  # fmt: skip
"""Types of values that filters find in a field of another type."""
_READ = re.compile(
    r"\d{4}-\d\d-\d\d([T ]\d\d:\d\d(:\d\d(\.\d+)?(Z|[+-]\d\d(:?\d\d)?)?)?)?", re.ASCII
)
"""Dates that both engines read."""
_EXACT_UP_TO = 2**53
"""A field of floats has all digits of a whole number."""


is_live: Filter = Equals("live", True)
"""For searches: only chunks have vectors, so their kind needs no check at each candidate."""
is_record: Filter = Equals("kind", "record")
is_live_chunk: Filter = AllOf((Equals("kind", "chunk"), is_live))


def point_id(
    kind: Literal["chunk", "text", "record", "collection", "background"], *parts: str | int
) -> str:
    """The id of a point (RFC 4122, version 5).

    Args:
        parts: document, revision and number of a chunk or a part of the text; document of its
            record; name of the collection for what is kept of it.
    """
    return str(uuid.uuid5(NAMESPACE, "/".join((kind, *map(str, parts)))))


def of_document(document_id: str) -> Filter:
    """Every point of a document."""
    return Equals("document_id", document_id)


def field_specs(
    fields: Mapping[str, FieldType], facts: Mapping[str, FieldType] = MappingProxyType({})
) -> dict[str, FieldSpec]:
    """What a caller may filter by: the document's own fields, its facts and its metadata."""
    own = {name: FieldSpec(name, OWN_FIELDS[name]) for name in _FILTERED}
    read = {name: FieldSpec(fact_path(name), kind) for name, kind in facts.items()}
    return own | read | {name: FieldSpec(f"m.{name}", kind) for name, kind in fields.items()}


def store_fields(
    fields: Mapping[str, FieldType], facts: Mapping[str, FieldType] = MappingProxyType({})
) -> dict[str, FieldType]:
    """The store's field paths and types for a collection's metadata fields and facts."""
    read = {fact_path(name): kind for name, kind in facts.items()}
    if read:
        read["fact"] = "keyword"
    return OWN_FIELDS | read | {f"m.{name}": kind for name, kind in fields.items()}


def fact_path(name: str) -> str:
    """Where a fact stands in a payload: apart from the metadata that the document came with."""
    return f"f.{name}"


def infer_fields(metadata: Metadata) -> dict[str, FieldType]:
    """Field types from one document's values; ISO dates are dates.

    A number gives a float, since the next one may have a fraction, unless a float would lose digits
    of it. A blank text gives nothing.
    """
    kinds: dict[str, FieldType] = {}
    for name, value in metadata.items():
        kind = _kind_of(value)
        if kind is not None:
            kinds[name] = "float" if kind == "integer" and not _is_long(value) else kind
    return kinds


def not_found_in(metadata: Metadata, fields: Mapping[str, FieldType]) -> dict[str, FieldType]:
    """The values that filters miss, or confuse with others, since their field has another type:
    name → their type."""
    return {
        name: kind
        for name, value in metadata.items()
        if (kind := _kind_of(value)) and (of := fields.get(name))
        and (kind not in _TAKES.get(of, (of,)) or (of == "float" and _is_long(value)))
    }  # fmt: skip


def _is_long(value: str | int | float | bool | None) -> bool:
    """Whether it is a whole number that a field of floats may confuse with the next one."""
    return isinstance(value, int) and abs(value) > _EXACT_UP_TO


def _kind_of(value: str | int | float | bool | None) -> FieldType | None:
    if isinstance(value, str):
        return ("datetime" if _date_of(value) else "keyword") if value.strip() else None
    return _KINDS.get(type(value))


def with_dates(metadata: Metadata, fields: Mapping[str, FieldType]) -> Metadata:
    """The metadata with the dates of its fields of dates as the store reads them."""
    return {
        name: (_date_of(value) or value)
        if isinstance(value, str) and fields.get(name) == "datetime"
        else value
        for name, value in metadata.items()
    }


def _date_of(text: str) -> str | None:
    """An ISO date as the store reads it: a zone needs seconds. None where it is no date."""
    if not 10 <= len(text) <= 40 or (text[4], text[7]) != ("-", "-"):
        return None
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    return next(filter(_READ.fullmatch, (text, moment.isoformat())), None)


def record_payload(document: NewDocument, revision: str, *, chunks: int) -> dict[str, Any]:
    """The payload of a document's record.

    Args:
        revision: as it is stored.
        chunks: number of its passages, with those of its facts.
    """
    return {
        "kind": "record",
        "live": False,
        "document_id": document.document_id,
        "title": document.title,
        "url": document.url,
        "m": document.metadata,
        "revision": revision,
        "chunks": chunks,
        "content_hash": hash_of_text(document.text),
        "chars": len(document.text),
        "size_bytes": len(document.text.encode()),
        "text_parts": -(-len(document.text) // TEXT_PART_CHARS),
    }


def chunk_payload(document: NewDocument, revision: str) -> dict[str, Any]:
    """What the payloads of all passages of a document have in common."""
    return {
        "kind": "chunk",
        "live": False,
        "document_id": document.document_id,
        "title": document.title,
        "url": document.url,
        "m": document.metadata,
        "revision": revision,
        "content_hash": hash_of_text(document.text),
    }


def stored_revision(revision: str, rules: str) -> str:
    """The revision of a document's points: of its content, and of the rules that read its facts."""
    return f"{revision}{_RULES}{rules}" if rules else revision


def summary_of(
    collection: str, payload: dict[str, Any], rules: str | None = None,
    fields: Mapping[str, FieldType] = MappingProxyType({}),
) -> DocumentSummary:  # fmt: skip
    """A record as a message.

    Args:
        rules: by which facts are read now. A document that was read by others, or whose storing
            was interrupted, has no revision, so that it is sent again.
        fields: where they are dates, the same holds for one whose dates no filter finds yet.
    """
    revision, _, own = payload["revision"].partition(_RULES)
    metadata = payload.get("m") or {}
    is_read = rules in (None, own) and with_dates(metadata, fields) == metadata
    return DocumentSummary(
        collection=collection,
        document_id=payload["document_id"],
        title=payload["title"],
        url=payload.get("url"),
        metadata=metadata,
        chunk_count=payload["chunks"],
        revision=revision if is_read and payload["live"] else "",
        size_bytes=payload["size_bytes"],
    )
