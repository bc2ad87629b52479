"""Reads documents back from their points: whole, or a part of their text.

reader = DocumentReader(store)
await reader.read("fomc", document_id)                         # None where there is none
await reader.read("fomc", document_id, start=1200, end=1900)   # text[1200:1900]
"""

from __future__ import annotations

from typing import Any

from searchbus_contracts import ErrorCode, Fault
from searchbus_contracts.ingest import hash_of_text
from searchbus_contracts.retrieval import Document
from searchbus_vectors import CollectionMissing, VectorStore

from . import identity
from .records import TEXT_PART_CHARS, summary_of

__all__ = ["DocumentReader"]


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
                records = await self._store.get(collection, [identity.record_id(document_id)])
                if not records:
                    return None
                payload = records[0].payload
                first, last = _parts(payload, start, end)
                ids = [
                    identity.text_id(document_id, payload["revision"], ordinal)
                    for ordinal in range(first, last)
                ]
                parts = await self._store.get(collection, ids)
            except CollectionMissing:
                return None
            if len(parts) == len(ids):
                text = "".join(part.payload["text"] for part in parts)
                return _document(collection, payload, text, first * TEXT_PART_CHARS, start, end)
        raise Fault(ErrorCode.UNAVAILABLE, "The document is being replaced. Try again.")


def _parts(payload: dict[str, Any], start: int, end: int | None) -> tuple[int, int]:
    """The first stored part of the text to read, and the one behind the last."""
    count = payload["text_parts"]
    if "content_hash" not in payload:  # of an earlier release: it takes the whole text to make it
        return 0, count
    last = count if end is None else min(count, -(-end // TEXT_PART_CHARS))
    return min(start // TEXT_PART_CHARS, last), last


def _document(
    collection: str, payload: dict[str, Any], text: str, offset: int, start: int, end: int | None
) -> Document:
    """The document with a part of its text, of which `text` has the characters from `offset`."""
    chars = payload.get("chars", len(text))
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
        content_hash=payload.get("content_hash") or hash_of_text(text),
    )
