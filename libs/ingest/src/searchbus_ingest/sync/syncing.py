"""One sync of one source: stores what is new or changed, then deletes what is gone.

Each document has the source's name (`synced_from`) and what the source calls it (`synced_as`) in
its metadata. These say whose a document is: only such documents are deleted, whatever else the
collection holds, and after an interruption or on another machine the next sync goes on from them.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing
from dataclasses import KW_ONLY, dataclass, field, replace
from pathlib import Path

import msgspec

from searchbus_bus import Bus
from searchbus_contracts import ErrorCode, Fault
from searchbus_contracts.ingest import NewDocument, are_most, document_id, revision_of

from ..sending import SYNCED_FROM, Retrieval, Summary, delete, send, stored_documents
from ..sources.item import Item, SourceUnchangedError
from .source import SourceEntry, SourceListing, SyncSource
from .state import SyncState, digest_of, write_state

SYNCED_AS = "synced_as"
MAX_DOCUMENTS = 1_000_000
"""The id of each is kept in memory."""
_SAVE_EVERY_S = 30.0


@dataclass(slots=True)
class SyncSummary(Summary):
    """Counts of one sync; `held`: documents that are gone and were not deleted."""

    held: int = 0


@dataclass(slots=True)
class _Stored:
    """The documents of one entry, id → revision; and the day of the newest."""

    revisions: dict[str, str] = field(default_factory=dict)
    day: str = ""


@dataclass(eq=False)
class Sync:
    """Use once.

    Args:
        state: of the last sync; it becomes that of this one.
        path: where the state is written now and then; `None` in tests of a sync alone.
        allow_deletes: whether more than half of the documents may be deleted.
    """

    bus: Bus
    source: SyncSource
    state: SyncState
    _: KW_ONLY
    path: Path | None = None
    allow_deletes: bool = False
    on_progress: Callable[[Summary], None] = lambda summary: None

    def __post_init__(self) -> None:
        self.summary = SyncSummary()
        self._service = Retrieval(self.bus, self.summary, self.on_progress)
        self._own: dict[str, _Stored] = {}
        self._entries: dict[str, tuple[str, str]] = {}
        self._kept: dict[str, str] = {}
        self._failing: set[str] = set()
        self._saved_s = time.monotonic()

    async def run(self) -> SyncSummary:
        """Bring the collection up to date.

        Raises:
            SourceUnreadableError: nothing was changed.
            Fault: the service failed, or there are too many documents.
        """
        summary, state = self.summary, self.state
        await self._find_own()
        whole = {i: r for one in self._own.values() for i, r in one.revisions.items()}
        in_place = bool(state.stamp) and state.digest == digest_of(whole)
        try:
            listing = await self.source.entries(state.stamp if in_place else "")
        except SourceUnchangedError:
            summary.unchanged = len(whole)
            return summary
        async with aclosing(self._items(listing)) as items:
            await send(
                self.bus, state.collection, items, present=whole, summary=summary,
                on_progress=self.on_progress,
            )  # fmt: skip
        gone = self._gone(listing)
        why = self._refusal(listing, gone, len(whole))
        if why:
            summary.held = len(gone)
            summary.notes.append(f"{len(gone)} documents are gone and stay: {why}")
        elif gone:
            ids = tuple(sorted(gone))
            summary.deleted = await delete(self._service, state.collection, ids)
        left = {i: r for i, r in whole.items() if i not in gone} | self._kept
        complete = not summary.failed and not summary.held and not listing.partial
        state.entries = (state.entries if summary.held else {}) | self._entries
        state.stamp, state.digest = listing.stamp if complete else "", digest_of(left)
        return summary

    async def _find_own(self) -> None:
        """The documents that this source has stored."""
        name = self.state.name
        async for document in stored_documents(self._service, self.state.collection):
            if document.metadata.get(SYNCED_FROM) == name:
                stored = self._own.setdefault(str(document.metadata.get(SYNCED_AS)), _Stored())
                stored.revisions[document.document_id] = document.revision
                stored.day = max(stored.day, str(document.metadata.get("date", "")))

    async def _items(self, listing: SourceListing) -> AsyncGenerator[Item]:
        """What new and changed entries hold."""
        for item in listing.skipped:
            if not item.left_out:
                self._failing.add(item.origin)
            yield item
        # A sync may end before it has looked at all: new entries are first, then those that were
        # looked at the longest ago.
        places = {name: place for place, name in enumerate(self.state.entries)}
        for entry in sorted(listing.entries, key=lambda entry: places.get(entry.name, -1)):
            stored = self._own.get(entry.name)
            stamp, digest = self.state.entries.get(entry.name, ("", ""))
            in_place = stored is not None and digest == digest_of(stored.revisions)
            known = stamp if in_place else ""
            unchanged = bool(known) and known == entry.stamp
            if not unchanged:
                try:
                    async for item in self._read(entry, known):
                        yield item
                except SourceUnchangedError:
                    unchanged = True
            if unchanged and stored is not None:
                self._keep(stored.revisions)
                self._entries[entry.name] = (stamp, digest)
                self.summary.unchanged += len(stored.revisions)
                self.on_progress(self.summary)
            await self._save()

    async def _read(self, entry: SourceEntry, known: str) -> AsyncIterator[Item]:
        revisions: dict[str, str] = {}
        async for item in self.source.read(entry, known, self.state.collection):
            if item.document is None:
                self._failing.add(entry.name)
                yield item
                continue
            document = self._marked(item.document, entry.name)
            revisions[document.document_id] = revision_of(document)
            yield replace(item, document=document)
        self._keep(revisions)
        stamp = entry.stamp if revisions and entry.name not in self._failing else ""
        self._entries[entry.name] = (stamp, digest_of(revisions))

    def _marked(self, document: NewDocument, entry: str) -> NewDocument:
        """The document as this source's, with an id that no other source gives."""
        state = self.state
        key = f"{state.name}\0{entry}\0{document.document_id}"
        marks = {SYNCED_FROM: state.name, SYNCED_AS: entry}
        return msgspec.structs.replace(
            document,
            document_id=document_id(state.collection, key),
            metadata=document.metadata | marks,
        )

    def _keep(self, revisions: dict[str, str]) -> None:
        self._kept |= revisions
        if len(self._kept) > MAX_DOCUMENTS:
            raise Fault(
                ErrorCode.INVALID_ARGUMENT,
                f"More than {MAX_DOCUMENTS:,} documents, the limit of one source. "
                "Use one source for each part of it.",
            )

    def _gone(self, listing: SourceListing) -> set[str]:
        """Ids of the documents that the source has no longer.

        What belongs to an entry that could not be read is not gone, nor what is below a folder
        that could not be listed.
        """
        folders = tuple(name for name in self._failing if name.endswith("/"))
        found: set[str] = set()
        for name, stored in self._own.items():
            if name in self._failing or (folders and name.startswith(folders)):
                continue
            if listing.gone_after and stored.day <= listing.gone_after:
                continue
            found |= stored.revisions.keys() - self._kept.keys()
        return found

    def _refusal(self, listing: SourceListing, gone: set[str], total: int) -> str:
        """Why nothing is deleted; empty where it may be."""
        if not gone:
            return ""
        if listing.partial:
            return f"the source was not read to its end ({listing.partial})"
        if self.allow_deletes:
            return ""
        remedy = "If that is right, sync once with --allow-deletes."
        if not listing.entries:
            return f"the source is empty. {remedy}"
        if are_most(len(gone), total):
            return f"they are more than half of the {total} documents. {remedy}"
        return ""

    async def _save(self) -> None:
        """Write what was read so far: a sync that is killed does not fetch it again. Documents that
        were not stored by then do not have the digest that is written.
        """
        if self.path is None or time.monotonic() - self._saved_s < _SAVE_EVERY_S:
            return
        left = {n: e for n, e in self.state.entries.items() if n not in self._entries}
        entries = left | self._entries  # in the order in which they were looked at
        draft = msgspec.structs.replace(self.state, entries=entries, stamp="", digest="")
        await asyncio.to_thread(write_state, self.path, draft)
        self._saved_s = time.monotonic()
