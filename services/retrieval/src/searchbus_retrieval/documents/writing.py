"""Stores a document completely or not at all, and repairs the collection after a crash.

Steps for one document: (1) write its chunks and text, not live; (2) write its record, the commit;
(3) make the new points live; (4) delete those of the old revision; (5) make the record live. A
search that finds both revisions keeps the record's. `repair` undoes what a crash left before step
2, and repeats what is behind it. So does the next ingest of the document, where a server went away
between them.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine, Mapping
from contextlib import AsyncExitStack
from types import MappingProxyType
from typing import Any, Literal
from weakref import WeakValueDictionary

from msgspec.structs import replace

from searchbus_bus import telemetry
from searchbus_contracts import ErrorCode, Fault
from searchbus_contracts.ingest import (
    MAX_DOCUMENT_BYTES,
    Chunk,
    IngestResult,
    NewDocument,
    revision_of,
)
from searchbus_contracts.retrieval import FieldType
from searchbus_vectors import (
    AllOf,
    CollectionDamagedError,
    Equals,
    Not,
    Point,
    StorageFullError,
    VectorStore,
)

from ..question.profiles import Profile
from ..question.words import undamaged
from .collections import Models, Schemas, origin_of
from .facts import FactPassage, Facts, fact_fields, facts_of, rules_of
from .records import (
    TEXT_PART_CHARS,
    chunk_payload,
    infer_fields,
    is_record,
    not_found_in,
    of_document,
    point_id,
    record_payload,
    stored_revision,
    with_dates,
)

log = logging.getLogger("searchbus.retrieval")
_CHUNKS_PER_BATCH, _TEXTS_PER_BATCH = 64, 16


class Writer:
    """Writes to one store, by the profiles of collections; `schemas` and `models` are shared with
    the reader."""

    def __init__(
        self,
        store: VectorStore,
        models: Models,
        schemas: Schemas,
        profiles: Mapping[str, Profile] = MappingProxyType({}),
    ) -> None:
        self._store = store
        self._profiles = profiles
        self._models = models
        self._schemas = schemas
        # A lock exists as long as a task holds it or waits for it.
        self._locks: WeakValueDictionary[tuple[str, str], asyncio.Lock] = WeakValueDictionary()
        self._commits: set[asyncio.Task[None]] = set()

    async def store(
        self, collection: str, document: NewDocument, fields: dict[str, FieldType]
    ) -> IngestResult:
        """Store one document, with declared types of its fields; others come from the values.
        Repeating it changes nothing.

        Raises:
            Fault: unavailable, without the collection's model; invalid_argument, where it has a
                declared field with another type.
        """
        reason = _refusal(document)
        if reason is not None:
            return IngestResult(document_id=document.document_id, outcome="refused", reason=reason)
        schema = await self._schemas.find(collection)
        origin = origin_of(collection)
        model = self._models.of_new(origin) if schema is None else schema.model
        embedder = await self._models.embedder(collection, model)
        profile = self._profiles.get(origin, Profile())
        schema = await self._schemas.ensure(
            collection, infer_fields(document.metadata), embedder, fact_fields(profile), fields
        )
        async with AsyncExitStack() as locked:
            await locked.enter_async_context(self._lock(collection, document.document_id))
            result = await self._store_locked(collection, document, profile, schema.fields, locked)
        lost = not_found_in(document.metadata, schema.fields)
        return replace(result, reason=_not_found(lost, schema.fields)) if lost else result

    def _lock(self, collection: str, document_id: str) -> asyncio.Lock:
        return self._locks.setdefault((collection, document_id), asyncio.Lock())

    async def _store_locked(
        self, collection: str, document: NewDocument, profile: Profile,
        fields: Mapping[str, FieldType], locked: AsyncExitStack,
    ) -> IngestResult:  # fmt: skip
        document_id = document.document_id
        revision = stored_revision(revision_of(document), rules_of(profile))
        key = point_id("record", document_id)
        present = await self._store.get(collection, [key])
        if present and present[0].payload["revision"] == revision:
            return await self._finished(collection, present[0].payload, fields, locked)
        document = replace(document, metadata=with_dates(document.metadata, fields))
        facts = await asyncio.to_thread(facts_of, profile, document)
        for problem in facts.problems:
            telemetry.count_failed("facts")
            log.warning("%s: a fact cannot be read: %s", document_id, problem)
        passages = _passages(document, facts)
        await self._write_text(collection, document, revision)
        await self._write_passages(collection, document, revision, passages, facts)
        payload = record_payload(document, revision, chunks=len(passages))
        record = Point(key, payload | _read(facts))
        commit = self._commit(collection, record)
        await self._finish(_holding(locked.pop_all(), commit))
        outcome: Literal["replaced", "stored"] = "replaced" if present else "stored"
        return IngestResult(document_id=document_id, outcome=outcome, chunks=len(passages))

    async def _finished(
        self, collection: str, record: dict[str, Any], fields: Mapping[str, FieldType],
        locked: AsyncExitStack,
    ) -> IngestResult:  # fmt: skip
        """The result for a document that is there already; its commit may have been interrupted,
        and an older release stored its dates as they were written."""
        metadata = record.get("m") or {}
        if (read := with_dates(metadata, fields)) != metadata:
            own = AllOf((of_document(record["document_id"]), Not(Equals("kind", "text"))))
            await self._store.set_payload(collection, own, {"m": read})
        if record["live"]:
            outcome: Literal["unchanged", "stored"] = "unchanged"
        else:
            await self._finish(_holding(locked.pop_all(), self._switch(collection, record)))
            outcome = "stored"
        document_id, chunks = record["document_id"], record["chunks"]
        return IngestResult(document_id=document_id, outcome=outcome, chunks=chunks)

    async def _write_text(self, collection: str, document: NewDocument, revision: str) -> None:
        common = {"document_id": document.document_id, "revision": revision, "live": False}
        texts = [
            Point(
                point_id("text", document.document_id, revision, ordinal),
                common | {"kind": "text", "text": document.text[start : start + TEXT_PART_CHARS]},
            )
            for ordinal, start in enumerate(range(0, len(document.text), TEXT_PART_CHARS))
        ]
        for start in range(0, len(texts), _TEXTS_PER_BATCH):
            await self._store.upsert(collection, texts[start : start + _TEXTS_PER_BATCH])

    async def _write_passages(
        self,
        collection: str,
        document: NewDocument,
        revision: str,
        passages: list[tuple[Chunk, FactPassage | None]],
        facts: Facts,
    ) -> None:
        # The collection's own model: another replica may have created it meanwhile.
        schema = await self._schemas.get(collection)
        embedder = await self._models.embedder(collection, schema.model)
        common = chunk_payload(document, revision) | _read(facts)
        for first in range(0, len(passages), _CHUNKS_PER_BATCH):
            batch = passages[first : first + _CHUNKS_PER_BATCH]
            texts = [document.text[chunk.start : chunk.end] for chunk, _ in batch]
            vectors = await embedder.embed_documents(
                [
                    embedded_text(document, chunk.section, text)
                    for (chunk, _), text in zip(batch, texts, strict=True)
                ]
            )
            points: list[Point] = []
            for (chunk, fact), text, vector in zip(batch, texts, vectors, strict=True):
                number = first + len(points)
                key = point_id("chunk", document.document_id, revision, number)
                payload = common | {
                    "section": chunk.section, "text": text, "start": chunk.start, "end": chunk.end,
                }  # fmt: skip
                if fact is not None:
                    payload |= {"fact": fact.fact, "f": facts.fields | fact.fields}
                points.append(Point(key, payload, vector))
            await self._store.upsert(collection, points)

    async def _finish(self, commit: Coroutine[Any, Any, None]) -> None:
        """Run a commit to its end, also when the request is cancelled: the document's passages
        would be missing until the next start.
        """
        task = asyncio.get_running_loop().create_task(commit)
        self._commits.add(task)
        task.add_done_callback(self._commits.discard)
        try:
            await asyncio.shield(task)
        except asyncio.CancelledError:
            task.add_done_callback(_report_failure)
            raise

    async def _commit(self, collection: str, record: Point) -> None:
        """Make a revision the document's; raises Fault(unavailable), see `_check_whole`."""
        await self._check_whole(collection, record.payload)
        await self._store.upsert(collection, [record])
        await self._switch(collection, record.payload)

    async def _switch(self, collection: str, record: dict[str, Any]) -> None:
        """Steps 3 to 5; raises Fault(unavailable), see `_check_whole`."""
        document, own = of_document(record["document_id"]), Equals("revision", record["revision"])
        points = AllOf((document, own, Not(is_record)))
        await self._store.set_payload(collection, points, {"live": True})
        await self._store.delete(collection, AllOf((document, Not(own), Not(is_record))))
        await self._check_whole(collection, record)
        await self._store.set_payload(collection, AllOf((document, own, is_record)), {"live": True})

    async def _check_whole(self, collection: str, record: dict[str, Any]) -> None:
        """Raise Fault(unavailable), and delete the revision, where points of it are missing:
        another replica, which stored another revision at the same time, deleted them."""
        document, own = of_document(record["document_id"]), Equals("revision", record["revision"])
        points = AllOf((document, own, Not(is_record)))
        if await self._store.count(collection, points) < record["chunks"] + record["text_parts"]:
            await self._store.delete(collection, AllOf((document, own)))
            raise Fault(
                ErrorCode.UNAVAILABLE,
                "Another process stored the document at the same time. Try again.",
            )

    async def delete(self, collection: str, document_ids: tuple[str, ...]) -> int:
        """Delete documents, or the whole collection where no ids are given; returns how many."""
        if not document_ids:
            try:
                records = await self._store.count(collection, is_record)
            except (CollectionDamagedError, StorageFullError) as error:
                log.warning("a damaged collection is deleted: %s", error)
                records = 0
            await self._store.drop_collection(collection)
            self._schemas.forget(collection)
            return records
        deleted = 0
        for document_id in document_ids:
            async with self._lock(collection, document_id):
                record = await self._store.get(collection, [point_id("record", document_id)])
                deleted += len(record)
                await self._store.delete(collection, of_document(document_id))
        return deleted

    async def repair(self, collection: str) -> int:
        """Finish or undo what a crash interrupted; returns the number of documents repaired."""
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
            record = await self._store.get(collection, [point_id("record", document_id)])
            if record and record[0].payload["revision"] == revision:
                try:
                    await self._switch(collection, record[0].payload)
                except Fault as fault:  # the others are still repaired
                    log.warning("%s is not repaired: %s", document_id, fault.failure.message)
            else:
                leftover = AllOf((of_document(document_id), Equals("revision", revision)))
                await self._store.delete(collection, leftover)
        if touched:
            log.warning("repaired %d interrupted document(s) in %s", len(touched), collection)
        return len(touched)


def _read(facts: Facts) -> dict[str, Any]:
    """What was read of a document, for a payload."""
    return {"f": facts.fields} if facts.fields else {}


def _passages(document: NewDocument, facts: Facts) -> list[tuple[Chunk, FactPassage | None]]:
    """The document's passages, then those of its facts, each with what it states."""
    found: list[tuple[Chunk, FactPassage | None]] = [(chunk, None) for chunk in document.chunks]
    for passage in facts.passages:
        holders = (n for n, c in enumerate(document.chunks) if c.start <= passage.start < c.end)
        number = next(holders, None)
        if passage.own:
            section = None if number is None else document.chunks[number].section
            chunk = Chunk(start=passage.start, end=passage.end, section=section)
            found.append((chunk, passage))
        elif number is not None:
            found[number] = (document.chunks[number], passage)
    return found


async def _holding(locked: AsyncExitStack, commit: Coroutine[Any, Any, None]) -> None:
    """Run a commit under the document's lock, to its own end rather than that of its request:
    another writer in between would lose its passages to the switch.
    """
    async with locked:
        await commit


def _report_failure(commit: asyncio.Task[None]) -> None:
    """Log and count the failure of a commit whose caller has left."""
    if not commit.cancelled() and (error := commit.exception()) is not None:
        telemetry.count_failed("commit")
        log.error("a document was not committed; the next start repairs it", exc_info=error)


def embedded_text(document: NewDocument, section: str | None, passage: str) -> str:
    """The text to embed for a passage: title, date and section stand before the passage.

    Statements repeat each other almost literally; without this their vectors are nearly equal.
    """
    passage = undamaged(passage)
    head = document.title
    for value in document.metadata.values():
        if isinstance(value, str) and len(value) == 10 and value[4:5] == "-" == value[7:8]:
            head = f"{head} ({value})"
            break
    return f"{head}. {section}. {passage}" if section else f"{head}. {passage}"


def _not_found(values: Mapping[str, FieldType], fields: Mapping[str, FieldType]) -> str:
    """What is said of values that filters miss, or confuse with others."""
    said = "; ".join(f"{name} is {fields[name]}, a value of it {values[name]}" for name in values)
    return (
        "Filters do not find some values, or not exactly, for their field has another type: "
        f"{said}. Declare one type for all, with --field NAME=TYPE and --rebuild."
    )


def _refusal(document: NewDocument) -> str | None:
    size_bytes = len(document.text.encode("utf-8", "surrogatepass"))
    if size_bytes > MAX_DOCUMENT_BYTES:
        limit = MAX_DOCUMENT_BYTES // 1024 // 1024
        return f"The text is {size_bytes:,} bytes; a document may have {limit} MiB. Split it."
    if not document.text.strip():
        return "The document has no text."
    end = len(document.text)
    if any(not 0 <= chunk.start < chunk.end <= end for chunk in document.chunks):
        return "A chunk is outside of the text."
    for name in document.metadata:
        if not name.replace("_", "a").isalnum() or len(name) > 64 or not name.isascii():
            return f"The metadata field {name[:64]!r} must be 1 to 64 letters, digits or _."
    return None
