"""Sends documents to the retrieval service in acknowledged batches.

Only what is new or changed is sent, so that a second run after an interruption sends the rest.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable
from dataclasses import dataclass, field
from typing import Literal, TypeVar

from searchbus_bus import Bus
from searchbus_contracts import Actor
from searchbus_contracts.errors import ErrorCode, Fault
from searchbus_contracts.ingest import (
    DeleteReply,
    DeleteRequest,
    IngestReply,
    IngestRequest,
    NewDocument,
    RebuildReply,
    RebuildRequest,
    document_id,
    revision_of,
)
from searchbus_contracts.retrieval import DocumentSummary, FieldType, ListReply, ListRequest

from .sources.item import Item, Reason, in_thread

BATCH_CHUNKS = 128
"""About three seconds of embedding on two cores: small enough to show progress and to retry."""
FIRST_BATCH_CHUNKS = 4
"""The first batch is small, so that there is progress within a second; the next ones grow."""
_GROWTH = 4
BATCHES_AT_ONCE = 2
TIMEOUT_S = 30.0
CHUNK_TIMEOUT_S = 0.5
"""Added for each passage: a hundred times what embedding takes on a machine of its own. A service
that is gone is noticed in seconds, whatever the timeout."""
DELETE_TIMEOUT_S = 600.0
PATIENCE_S = 120.0
"""How long a service may be away."""
PAUSE_S = 0.5
MAX_PAUSE_S = 5.0
_PASSING = frozenset({ErrorCode.UNAVAILABLE, ErrorCode.OVERLOADED, ErrorCode.DEADLINE_EXCEEDED})
R = TypeVar("R")
SYNCED_FROM = "synced_from"
"""Metadata field of documents that `searchbus sync` stores: the name of their source."""
_OPERATOR = Actor(subject="searchbus-ingest", roles=("*",))


@dataclass(slots=True)
class Summary:
    """How many documents of one run had which outcome.

    `skipped` has what was not stored, each with its reason; `notes` what was stored with a loss.
    `missing` is the number of documents that a rebuild would lose, so that it replaces nothing.
    `waits` is the number of requests that wait for the service to come back.
    """

    stored: int = 0
    replaced: int = 0
    unchanged: int = 0
    deleted: int = 0
    missing: int = 0
    chunks: int = 0
    waits: int = 0
    skipped: list[Item] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @property
    def documents(self) -> int:
        """Documents that are in the collection now."""
        return self.stored + self.replaced + self.unchanged

    @property
    def failed(self) -> list[Item]:
        """What was asked for and not stored; the rest of `skipped` was left out by rule."""
        return [item for item in self.skipped if not item.left_out]

    @property
    def reasons(self) -> dict[str, int]:
        """Reason → number of skipped items, the most frequent first."""
        return dict(Counter(item.reason.value for item in self.skipped).most_common())


async def send(
    bus: Bus,
    collection: str,
    items: Iterable[Item] | AsyncIterator[Item],
    *,
    fields: dict[str, FieldType] | None = None,
    prune: bool = False,
    rebuild: bool = False,
    present: dict[str, str] | None = None,
    summary: Summary | None = None,
    on_progress: Callable[[Summary], None] = lambda summary: None,
) -> Summary:
    """Send every document and report each problem.

    Args:
        items: read as fast as they are taken, where they are not asynchronous in a thread.
        prune: delete documents of the collection that are not among the items; what could not be
            read stays.
        rebuild: send all into a copy, which takes the place of the collection where nothing failed,
            and where it has every document of it or is to be pruned.
        present: id → revision of what is stored; by default the service is asked.
        summary: counts in this one, which the caller has begun.

    Raises:
        Fault: the service failed, or was away for longer than `PATIENCE_S`.
    """
    summary = Summary() if summary is None else summary
    service = Retrieval(bus, summary, on_progress)
    if rebuild:
        await service.rebuild(collection, "begin", fields)
    if present is None:
        present = {
            d.document_id: d.revision
            async for d in stored_documents(service, collection, staged=rebuild)
            if rebuild or SYNCED_FROM not in d.metadata  # that its own source deletes
        }
    seen: set[str] = set()
    hidden, declared = False, bool(fields)
    slots = asyncio.Semaphore(BATCHES_AT_ONCE)

    async def deliver(batch: list[NewDocument]) -> None:
        try:
            reply = await service.ask(
                "ingest",
                IngestRequest(
                    collection=collection, documents=tuple(batch), fields=fields or {},
                    staged=rebuild,
                ),
                IngestReply,
                timeout_s=TIMEOUT_S + CHUNK_TIMEOUT_S * sum(len(d.chunks) for d in batch),
            )  # fmt: skip
        finally:
            slots.release()
        for result in reply.results:
            summary.chunks += result.chunks
            if result.outcome == "refused":
                summary.skipped.append(
                    Item(result.document_id, problem=result.reason, reason=Reason.REFUSED)
                )
            else:
                setattr(summary, result.outcome, getattr(summary, result.outcome) + 1)
                # Many documents have the same one.
                if result.reason is not None and result.reason not in summary.notes:
                    summary.notes.append(result.reason)
        on_progress(summary)

    try:
        async with asyncio.TaskGroup() as group:
            batch: list[NewDocument] = []
            full_chunks = min(FIRST_BATCH_CHUNKS, BATCH_CHUNKS)
            async for item in items if isinstance(items, AsyncIterator) else in_thread(items):
                if item.document is None:
                    summary.skipped.append(item)
                    # What cannot be read now may be stored since an earlier run: it is not pruned.
                    seen.add(document_id(collection, item.source_id or item.origin))
                    hidden = hidden or item.hides_documents
                    on_progress(summary)
                    continue
                if item.note is not None:
                    summary.notes.append(str(item))
                if item.document.document_id in seen:
                    problem = "the same id as an earlier document of this ingest, which is kept"
                    summary.skipped.append(
                        Item(item.origin, problem=problem, reason=Reason.DUPLICATE)
                    )
                    on_progress(summary)
                    continue
                seen.add(item.document.document_id)
                is_known = present.get(item.document.document_id) == revision_of(item.document)
                # One is sent for the declared fields: the service checks their types with it.
                if is_known and not declared:
                    summary.unchanged += 1
                    on_progress(summary)
                    continue
                declared = False
                batch.append(item.document)
                if sum(len(d.chunks) for d in batch) >= full_chunks:
                    full_chunks = min(_GROWTH * full_chunks, BATCH_CHUNKS)
                    await slots.acquire()
                    group.create_task(deliver(batch))
                    batch = []
            if batch:
                await slots.acquire()
                group.create_task(deliver(batch))
    except ExceptionGroup as failed:
        raise failed.exceptions[0] from None
    of_others: set[str] = set()
    if rebuild and not prune:
        of_others = {d.document_id async for d in stored_documents(service, collection)} - seen
        summary.missing = len(of_others - present.keys())
    if prune or rebuild:  # the copy may have been begun from an older source
        gone = tuple(sorted(set(present) - seen - of_others))
        if gone and hidden:
            summary.notes.append(
                "Nothing was deleted: what could not be read may be of stored documents. "
                "Correct it, then run the ingest again."
            )
        elif gone:
            summary.deleted = await delete(service, collection, gone, rebuild)
    if rebuild and summary.failed:
        summary.notes.append(
            f"{collection} stays as it was, because not all could be read. Correct that, and run "
            "the same command again to continue."
        )
    elif summary.missing:
        summary.notes.append(
            f"{collection} stays as it was: {summary.missing} of its documents are not of this "
            "source. Ingest theirs with --rebuild too, or leave them out with --prune; what "
            "searchbus sync stored comes back with its next run."
        )
    elif rebuild:
        await service.rebuild(collection, "end")
    return summary


class Retrieval:
    """Asks the retrieval service, and waits for it where it is away for a while."""

    def __init__(
        self,
        bus: Bus,
        summary: Summary | None = None,
        on_progress: Callable[[Summary], None] = lambda summary: None,
    ) -> None:
        self._bus = bus
        self._summary = summary or Summary()
        self._on_progress = on_progress

    async def ask(self, verb: str, message: object, reply: type[R], *, timeout_s: float) -> R:
        """Send a request, again while the service is away; raises Fault."""
        loop = asyncio.get_running_loop()
        pause_s = PAUSE_S
        failing_since_s: float | None = None
        while True:
            try:
                return await self._bus.request(
                    self._bus.subjects.endpoint("retrieval", verb),
                    message,
                    reply,
                    service="retrieval",
                    timeout_s=timeout_s,
                    actor=_OPERATOR,
                )
            except Fault as fault:
                now_s = loop.time()
                failing_since_s = now_s if failing_since_s is None else failing_since_s
                # A damaged collection is unavailable too, and stays so.
                passing = fault.code in _PASSING and fault.failure.retryable
                if not passing or now_s - failing_since_s >= PATIENCE_S:
                    raise
                await self._wait(pause_s)
                pause_s = min(MAX_PAUSE_S, 2 * pause_s)

    async def rebuild(
        self,
        collection: str,
        step: Literal["begin", "end"],
        fields: dict[str, FieldType] | None = None,
    ) -> None:
        """Begin a copy with declared fields, or put it in the collection's place; raises Fault."""
        request = RebuildRequest(collection=collection, step=step, fields=fields or {})
        await self.ask("rebuild", request, RebuildReply, timeout_s=DELETE_TIMEOUT_S)

    async def _wait(self, seconds: float) -> None:
        self._summary.waits += 1
        self._on_progress(self._summary)
        try:
            await asyncio.sleep(seconds)
        finally:
            self._summary.waits -= 1


async def delete(
    service: Retrieval, collection: str, document_ids: tuple[str, ...], staged: bool = False
) -> int:
    """Delete documents, or the collection if no ids are given; returns how many there were."""
    request = DeleteRequest(collection=collection, document_ids=document_ids, staged=staged)
    reply = await service.ask("delete", request, DeleteReply, timeout_s=DELETE_TIMEOUT_S)
    return reply.documents


async def stored_documents(
    service: Retrieval, collection: str, *, staged: bool = False
) -> AsyncIterator[DocumentSummary]:
    """Every stored document; none where the collection does not exist."""
    cursor: str | None = None
    while True:
        try:
            request = ListRequest(collection=collection, cursor=cursor, limit=1000, staged=staged)
            page = await service.ask("list", request, ListReply, timeout_s=60.0)
        except Fault as fault:
            if fault.code == ErrorCode.NOT_FOUND:
                return
            raise
        for document in page.documents:
            yield document
        cursor = page.next_cursor
        if cursor is None:
            return
