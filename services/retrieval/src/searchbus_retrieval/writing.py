"""Stores documents whole or not at all, and repairs what a crash left.

Order for one document: (1) its chunks and text, not live; (2) its record: the commit; (3) the
old revision's points go; (4) the new ones become live. A crash before 2 leaves points that are
not live and belong to no record: `repair` deletes them. A crash after 2 leaves not-live points of
the committed revision: `repair` does 3 and 4 again.
"""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict

from searchbus_contracts.retrieval import (
    MAX_DOCUMENT_BYTES,
    FieldType,
    IngestResult,
    NewDocument,
)
from searchbus_vectors import (
    AllOf,
    CollectionMissing,
    Embedder,
    Equals,
    Not,
    Point,
    VectorStore,
)

from . import identity
from .records import (
    TEXT_PART_CHARS,
    infer_fields,
    of_document,
    record_payload,
    store_fields,
)

__all__ = ["Writer"]

log = logging.getLogger("searchbus.retrieval")
_CHUNKS_PER_BATCH = 64


class Writer:
    """Writes to one store. `fields` is shared with the reader: collection → field → type."""

    def __init__(
        self, store: VectorStore, embedder: Embedder, fields: dict[str, dict[str, FieldType]]
    ) -> None:
        self._store = store
        self._embedder = embedder
        self._fields = fields
        self._locks: dict[tuple[str, str], asyncio.Lock] = defaultdict(asyncio.Lock)
        self._schema_lock = asyncio.Lock()

    async def ensure(self, collection: str, fields: dict[str, FieldType]) -> None:
        """Create the collection, add fields that are new; a field's type never changes."""
        known = self._fields.get(collection)
        new = {name: kind for name, kind in fields.items() if known is None or name not in known}
        if known is not None and not new:
            return
        async with self._schema_lock:
            merged = {**new, **self._fields.get(collection, {})}
            await self._store.ensure_collection(collection, store_fields(merged))
            record = {"kind": "collection", "fields": merged}
            point = Point(identity.collection_record_id(collection), record)
            await self._store.upsert(collection, [point])
            self._fields[collection] = merged

    async def store(
        self, collection: str, document: NewDocument, fields: dict[str, FieldType]
    ) -> IngestResult:
        """Store one document; repeating it changes nothing.

        Args:
            fields: declared types; other metadata is typed by its value.
        """
        reason = _refusal(document)
        if reason is not None:
            return IngestResult(document_id=document.document_id, outcome="refused", reason=reason)
        await self.ensure(collection, {**infer_fields(document.metadata), **fields})
        key = (collection, document.document_id)
        async with self._locks[key]:
            try:
                return await self._store_locked(collection, document)
            finally:
                if not self._locks[key]._waiters:
                    self._locks.pop(key, None)

    async def _store_locked(self, collection: str, document: NewDocument) -> IngestResult:
        revision = identity.revision_of(document)
        record_id = identity.record_id(document.document_id)
        present = await self._store.get(collection, [record_id])
        if present and present[0].payload["revision"] == revision:
            return IngestResult(
                document_id=document.document_id, outcome="unchanged", chunks=len(document.chunks)
            )
        await self._write_parts(collection, document, revision)
        size_bytes = len(document.text.encode())
        record = record_payload(document, revision, size_bytes)
        await self._store.upsert(collection, [Point(record_id, record)])
        await self._switch(collection, document.document_id, revision)
        return IngestResult(
            document_id=document.document_id,
            outcome="replaced" if present else "stored",
            chunks=len(document.chunks),
        )

    async def _write_parts(self, collection: str, document: NewDocument, revision: str) -> None:
        common = {"document_id": document.document_id, "revision": revision, "live": False}
        texts = [
            Point(
                identity.text_id(document.document_id, revision, ordinal),
                {
                    **common,
                    "kind": "text",
                    "text": document.text[
                        ordinal * TEXT_PART_CHARS : (ordinal + 1) * TEXT_PART_CHARS
                    ],
                },
            )
            for ordinal in range(-(-len(document.text) // TEXT_PART_CHARS))
        ]
        for start in range(0, len(texts), 16):
            await self._store.upsert(collection, texts[start : start + 16])
        for start in range(0, len(document.chunks), _CHUNKS_PER_BATCH):
            batch = document.chunks[start : start + _CHUNKS_PER_BATCH]
            passages = [document.text[chunk.start : chunk.end] for chunk in batch]
            vectors = await self._embedder.embed_documents(
                [
                    embedded_text(document, chunk.section, passage)
                    for chunk, passage in zip(batch, passages, strict=True)
                ]
            )
            await self._store.upsert(
                collection,
                [
                    Point(
                        identity.chunk_id(document.document_id, revision, start + offset),
                        {
                            **common,
                            "kind": "chunk",
                            "title": document.title,
                            "url": document.url,
                            "section": chunk.section,
                            "text": passage,
                            "m": document.metadata,
                        },
                        vector,
                    )
                    for offset, (chunk, passage, vector) in enumerate(
                        zip(batch, passages, vectors, strict=True)
                    )
                ],
            )

    async def _switch(self, collection: str, document_id: str, revision: str) -> None:
        own = Equals("revision", revision)
        others = Not(AllOf((Equals("kind", "record"),)))
        await self._store.delete(collection, AllOf((of_document(document_id), Not(own), others)))
        await self._store.set_payload(
            collection, AllOf((of_document(document_id), own, others)), {"live": True}
        )

    async def delete(self, collection: str, document_ids: tuple[str, ...]) -> int:
        """Delete documents, or the whole collection where no ids are given; returns how many."""
        if not document_ids:
            records = await self._store.count(collection, Equals("kind", "record"))
            await self._store.drop_collection(collection)
            self._fields.pop(collection, None)
            return records
        deleted = 0
        for document_id in document_ids:
            async with self._locks[collection, document_id]:
                record = await self._store.get(collection, [identity.record_id(document_id)])
                deleted += len(record)
                await self._store.delete(collection, of_document(document_id))
        return deleted

    async def repair(self, collection: str) -> int:
        """Finish or undo what a crash interrupted; returns how many documents were touched."""
        touched: set[tuple[str, str]] = set()
        start_id: str | None = None
        while True:
            page = await self._store.scroll(
                collection, where=Equals("live", False), limit=500, start_id=start_id
            )
            touched |= {(r.payload["document_id"], r.payload["revision"]) for r in page.records}
            start_id = page.next_id
            if start_id is None:
                break
        for document_id, revision in sorted(touched):
            record = await self._store.get(collection, [identity.record_id(document_id)])
            if record and record[0].payload["revision"] == revision:
                await self._switch(collection, document_id, revision)
            else:
                leftover = AllOf((of_document(document_id), Equals("revision", revision)))
                await self._store.delete(collection, leftover)
        if touched:
            log.warning("repaired %d interrupted document(s) in %s", len(touched), collection)
        return len(touched)

    async def load_fields(self, collection: str) -> None:
        """Read a collection's own record; a folder without one is not ours and is left alone."""
        try:
            found = await self._store.get(collection, [identity.collection_record_id(collection)])
        except CollectionMissing:
            return
        if found:
            self._fields[collection] = found[0].payload["fields"]


def embedded_text(document: NewDocument, section: str | None, passage: str) -> str:
    """What is embedded of a passage: title, date and section say what the passage itself does not.

    Statements repeat each other nearly word by word; without this they cannot be told apart.
    """
    head = document.title
    for value in document.metadata.values():
        if isinstance(value, str) and len(value) == 10 and value[4:5] == "-" == value[7:8]:
            head = f"{head} ({value})"
            break
    return f"{head}. {section}. {passage}" if section else f"{head}. {passage}"


def _refusal(document: NewDocument) -> str | None:
    size_bytes = len(document.text.encode("utf-8", "surrogatepass"))
    if size_bytes > MAX_DOCUMENT_BYTES:
        limit = MAX_DOCUMENT_BYTES // 1024 // 1024
        return f"The text is {size_bytes:,} bytes; a document may have {limit} MiB. Split it."
    if not document.text.strip():
        return "The document has no text."
    end = len(document.text)
    if any(not 0 <= chunk.start < chunk.end <= end for chunk in document.chunks):
        return "A chunk lies outside of the text."
    for name in document.metadata:
        if not name.replace("_", "a").isalnum() or len(name) > 64 or not name.isascii():
            return f"The metadata field {name[:64]!r} must be 1 to 64 letters, digits or _."
    return None
