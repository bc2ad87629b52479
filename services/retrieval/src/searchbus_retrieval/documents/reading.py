"""Reads documents back from their points, whole or in part."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

from searchbus_contracts import ErrorCode, Fault
from searchbus_contracts.retrieval import Document, Passage
from searchbus_vectors import CollectionMissingError, Record, VectorStore

from .records import TEXT_PART_CHARS, point_id, summary_of


@dataclass(frozen=True, slots=True)
class Span:
    """A part of a document's text, in characters."""

    document_id: str
    revision: str
    start: int
    end: int


class DocumentReader:
    """Reads the documents of one store."""

    def __init__(self, store: VectorStore) -> None:
        self._store = store

    async def read(
        self, collection: str, document_id: str, *, start: int = 0, end: int | None = None
    ) -> Document | None:
        """A document with `text[start:end]`; None where the collection does not have it.

        Of a long document only the stored parts that are asked for are read.

        Raises:
            Fault: invalid_argument; the text ends before `start`. unavailable; a writer replaces
                the document again and again.
        """
        # A writer may replace the document between the two reads: then read again.
        for _ in range(3):
            try:
                records = await self._store.get(collection, [point_id("record", document_id)])
                if not records:
                    return None
                payload = records[0].payload
                revision, stored = payload["revision"], payload["text_parts"] * TEXT_PART_CHARS
                needed = _parts(start, stored if end is None else min(end, stored))
                ids = [point_id("text", document_id, revision, number) for number in needed]
                parts = await self._store.get(collection, ids)
            except CollectionMissingError:
                return None
            if len(parts) == len(ids):
                text = "".join(part.payload["text"] for part in parts)
                offset = needed.start * TEXT_PART_CHARS
                return _document(collection, payload, text, offset, start, end)
        raise Fault(ErrorCode.UNAVAILABLE, "The document is being replaced. Try again.")

    async def passages(
        self, collection: str, document_id: str, *, offset: int, limit: int
    ) -> tuple[list[Passage], int] | None:
        """Some passages in the order of the text, and how many there are; None as for `read`."""
        try:
            records = await self._store.get(collection, [point_id("record", document_id)])
            if not records:
                return None
            payload = records[0].payload
            total = payload["chunks"]
            ids = [
                point_id("chunk", document_id, payload["revision"], number)
                for number in range(offset, min(offset + limit, total))
            ]
            # One that is missing belongs to a revision that a writer just replaced.
            return [_passage(one) for one in await self._store.get(collection, ids)], total
        except CollectionMissingError:
            return None

    async def payloads(
        self, collection: str, ids: Sequence[str], known: Mapping[str, dict[str, Any]]
    ) -> tuple[dict[str, dict[str, Any]], bool]:
        """Id → payload of matches, with those that are `known`; and whether some are gone.

        Of a document that a writer is replacing those of the record's revision stay.
        """
        records = await self._store.get(collection, ids)
        found = {**known, **{record.id: record.payload for record in records}}
        revisions = {(p["document_id"], p["revision"]) for p in found.values()}
        twice = [name for name, n in Counter(name for name, _ in revisions).items() if n > 1]
        if twice:
            keys = [point_id("record", name) for name in twice]
            own = [record.payload for record in await self._store.get(collection, keys)]
            revision = {payload["document_id"]: payload["revision"] for payload in own}
            found = {
                key: payload
                for key, payload in found.items()
                if revision.get(payload["document_id"]) in (None, payload["revision"])
            }
        return found, len(records) < len(ids)

    async def spans(self, collection: str, wanted: Sequence[Span]) -> list[str | None]:
        """The text of each in one request; None where its revision was replaced meanwhile."""
        ids = {span: _text_ids(span) for span in wanted}
        every = list(dict.fromkeys(chain.from_iterable(ids.values())))
        records = await self._store.get(collection, every) if every else []
        parts = {record.id: record.payload["text"] for record in records}
        found: list[str | None] = []
        for span in wanted:
            if not all(key in parts for key in ids[span]):
                found.append(None)
                continue
            text = "".join(parts[key] for key in ids[span])
            offset = span.start // TEXT_PART_CHARS * TEXT_PART_CHARS
            found.append(text[span.start - offset : span.end - offset])
        return found


def _text_ids(span: Span) -> list[str]:
    """The points that have its text."""
    numbers = _parts(span.start, span.end)
    return [point_id("text", span.document_id, span.revision, number) for number in numbers]


def _passage(record: Record) -> Passage:
    payload = record.payload
    return Passage(
        chunk_id=record.id,
        text=payload["text"],
        section=payload.get("section"),
        start=payload["start"],
        end=payload["end"],
        fact=str(payload.get("fact", "")),
    )


def _parts(start: int, end: int) -> range:
    """The numbers of the stored parts that have the characters from `start` to `end`."""
    last = -(-end // TEXT_PART_CHARS)
    return range(min(start // TEXT_PART_CHARS, last), last)


def _document(
    collection: str, payload: dict[str, Any], text: str, offset: int, start: int, end: int | None
) -> Document:
    """The document with a part of its text, of which `text` has the characters from `offset`."""
    chars = payload["chars"]
    if start and start >= chars:
        raise Fault(
            ErrorCode.INVALID_ARGUMENT,
            f"start is {start}, but the document has {chars} characters. It may have changed: "
            "search again.",
        )
    stop = chars if end is None else min(end, chars)
    summary = summary_of(collection, payload)
    return Document(
        collection=collection,
        document_id=summary.document_id,
        title=summary.title,
        text=text[start - offset : stop - offset],
        chunk_count=summary.chunk_count,
        url=summary.url,
        metadata=summary.metadata,
        start=start,
        end=stop,
        chars=chars,
        content_hash=payload["content_hash"],
    )
