"""One crawl: from its start over links, page by page, into a collection."""

from __future__ import annotations

import asyncio
import time
from collections import Counter, deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Annotated

from msgspec import UNSET, Struct, UnsetType

from searchbus_bus import end_task
from searchbus_bus.tasks import all_of
from searchbus_contracts import Actor, ErrorCode, Fault
from searchbus_contracts.codec import doc
from searchbus_contracts.ingest import are_most
from searchbus_contracts.tools import Name
from searchbus_upstream import canonical_key

from ..extraction.extractor import ExtractedPage
from .documents import MAX_KNOWN, SiteDocuments, StoredPage, hash_of_page
from .mapping import PageLinks, SiteReader, followed
from .politeness import LATER
from .records import (
    BEAT_S,
    HASH_BYTES,
    MAX_SEEN,
    MAX_WAITING_BYTES,
    CrawlRecord,
    RecordKeeper,
    address_hash,
)
from .scope import Globs, SiteScope, SiteUrl, cleaned, in_turns

MAX_PAGES = 500
AT_ONCE = 2
"""Pages at the same time: one may be fetched while another one is stored."""
MAX_REFUSALS = 3
"""Refusals in a row after which a crawl ends."""
_MAX_PROBLEMS = 50
_GONE = ("http_404", "http_410")
_SKIPPED = ("robots", "other_site", "unsupported_type", "empty", "scanned", "blocked_by_policy")
_OUTCOMES = (
    "stored", "replaced", "unchanged", "fresh", "duplicates", "deleted", "held", "skipped",
    "failed",
)  # fmt: skip
OnPage = Callable[[int, str], Awaitable[None]]
"""Awaited with the number of pages that are done, and what became of the last one."""


class CrawlSite(Struct, forbid_unknown_fields=True, rename="camel"):
    """Arguments of crawl."""

    url: SiteUrl
    collection: Annotated[Name, doc("Where the pages are stored; made where it is new")]
    depth: Annotated[int, doc("How many links away from url", ge=0, le=10)] = 2
    max_pages: Annotated[int, doc("The most pages of a call", ge=1, le=MAX_PAGES)] = 50
    include: Globs = []
    exclude: Globs = []
    max_age_s: Annotated[
        int,
        doc(
            "Pages that were stored less than these seconds ago are not fetched again",
            ge=0,
            le=30 * 86_400,
        ),
    ] = 0
    allow_deletes: Annotated[
        bool, doc("Whether to delete documents also where most visited pages are gone")
    ] = False
    cursor: (
        Annotated[str, doc("Goes on with a crawl that was truncated", max_length=64)] | UnsetType
    ) = UNSET


class CrawlProblem(Struct):
    """A page that is not in the collection."""

    url: str
    status: Annotated[str, doc("The error code, or `refused`, `noindex`")]
    message: str


class CrawlReport(Struct, omit_defaults=True, rename="camel"):
    """Answer of crawl: how many pages had which outcome."""

    site: Annotated[str, doc("Registrable domain")]
    collection: str
    stored: Annotated[int, doc("New documents")] = 0
    replaced: Annotated[int, doc("Documents whose page has changed")] = 0
    unchanged: Annotated[int, doc("Pages whose document stays as it is")] = 0
    fresh: Annotated[int, doc("Documents younger than maxAgeS: not fetched")] = 0
    duplicates: Annotated[int, doc("Pages with the text of another one")] = 0
    deleted: Annotated[int, doc("Documents whose page is gone")] = 0
    held: Annotated[int, doc("Documents that were not deleted: see notes")] = 0
    skipped: Annotated[int, doc("Pages that may not be stored, or have no text")] = 0
    failed: int = 0
    waiting: Annotated[int, doc("Addresses that were not visited")] = 0
    problems: Annotated[list[CrawlProblem], doc(f"At most {_MAX_PROBLEMS}")] = []
    truncated: Annotated[bool, doc("Whether the site has more than was visited")] = False
    cursor: Annotated[str | UnsetType, doc("Goes on there, with the same other arguments")] = UNSET
    notes: list[str] = []


@dataclass(slots=True)
class Crawl:
    """One call.

    Args:
        record: what was left of an earlier call, or a new one.
        end_s: of the loop's clock.
    """

    arguments: CrawlSite
    reader: SiteReader
    documents: SiteDocuments
    scope: SiteScope
    keeper: RecordKeeper
    record: CrawlRecord
    on_page: OnPage
    actor: Actor
    end_s: float
    _queue: deque[tuple[str, int]] = field(default_factory=deque)
    _busy: dict[str, int] = field(default_factory=dict)
    _seen: set[bytes] = field(default_factory=set)
    _queue_bytes: int = 0
    _known: dict[str, StoredPage] = field(default_factory=dict)
    _hashes: dict[str, str] = field(default_factory=dict)
    _twins: dict[str, tuple[str, int]] = field(default_factory=dict)
    _answered: set[str] = field(default_factory=set)
    _gone: dict[str, tuple[StoredPage, str]] = field(default_factory=dict)
    _again: set[str] = field(default_factory=set)
    _counts: Counter[str] = field(default_factory=Counter)
    _problems: list[CrawlProblem] = field(default_factory=list)
    _notes: list[str] = field(default_factory=list)
    _refusals: int = 0
    _begun: int = 0
    _changed: asyncio.Event = field(default_factory=asyncio.Event)

    async def run(self) -> CrawlReport:
        """Visit pages until there is no more, or the budget is used up; raises Fault where
        documents cannot be stored: the crawl can be continued."""
        record = self.record
        starts = range(0, len(record.seen), HASH_BYTES)
        self._seen = {record.seen[at : at + HASH_BYTES] for at in starts}
        self._counts.update(record.counts)
        self._begun = sum(self._counts.values()) - self._counts["fresh"]
        for url, depth in record.waiting:
            self._wait(url, depth)
        self._known = await self.documents.known()
        if len(self._known) >= MAX_KNOWN:
            self._notes.append(f"Only {MAX_KNOWN} stored pages of the site are visited again.")
        self._hashes = {page.content_hash: key for key, page in self._known.items()}
        self._add(self.scope.start, 0, always=True)
        if not record.open:
            async for page in in_turns(self._known.values()):
                if page.depth <= self.arguments.depth:
                    self._add(page.url, page.depth)
        record.open = True
        await self.keeper.write(self._recorded())
        beat = asyncio.create_task(self._beat())
        try:
            await all_of(*(self._work() for _ in range(AT_ONCE)))
            await self._delete_gone()
            record.open = False
        finally:
            await end_task(beat)
            await asyncio.shield(self.keeper.write(self._recorded(), ended=True))
        if self.keeper.lost:
            raise Fault(
                ErrorCode.UNAVAILABLE, "Another call goes on with this crawl. Wait until it ends."
            )
        return self._report()

    def _recorded(self) -> CrawlRecord:
        """The record as it is to be written: pages that are being visited wait again, and those
        whose documents are to be deleted.
        """
        gone = ((page.url, page.depth) for page, _ in self._gone.values())
        self.record.waiting = [*self._busy.items(), *gone, *self._queue]
        self.record.seen = b"".join(self._seen)
        self.record.counts = dict(self._counts)
        return self.record

    async def _beat(self) -> None:
        while not self.keeper.lost:
            await asyncio.sleep(BEAT_S)
            await self.keeper.write(self._recorded())
        self._changed.set()

    def _report(self) -> CrawlReport:
        waiting = len(self._queue)
        if waiting and not self.keeper.kept:
            self._notes.append("The key-value store is away: the crawl cannot be continued.")
        report = CrawlReport(
            self.scope.site, self.documents.collection, waiting=waiting, notes=self._notes,
            problems=self._problems, truncated=bool(waiting) or self.record.dropped,
        )  # fmt: skip
        for name in _OUTCOMES:
            setattr(report, name, self._counts[name])
        return report

    def _add(self, url: str, depth: int, *, always: bool = False) -> None:
        """Let an address wait that the scope admits (or `always`), unless it was seen."""
        mark = address_hash(canonical_key(url))
        if mark in self._seen or not (always or self.scope.admits(url)):
            return
        if len(self._seen) >= MAX_SEEN or self._queue_bytes + len(url) > MAX_WAITING_BYTES:
            self.record.dropped = True
            return
        self._seen.add(mark)
        self._wait(url, depth)

    def _wait(self, url: str, depth: int) -> None:
        self._queue.append((url, depth))
        self._queue_bytes += len(url.encode("utf-8", "replace"))
        self._changed.set()

    async def _next(self) -> tuple[str, int] | None:
        """The next address; None at the end of the crawl, or of its budget."""
        while not self._is_over():
            if self._queue:
                url, depth = self._queue.popleft()
                self._queue_bytes -= len(url.encode("utf-8", "replace"))
                return url, depth
            if not self._busy:
                return None
            self._changed.clear()
            await self._changed.wait()
        return None

    def _is_over(self) -> bool:
        return (
            asyncio.get_running_loop().time() >= self.end_s
            or self._begun >= self.arguments.max_pages
            or self._refusals >= MAX_REFUSALS
            or self.keeper.lost
        )

    async def _work(self) -> None:
        while (found := await self._next()) is not None:
            url, depth = found
            self._busy[url] = depth
            self._begun += 1
            outcome = await self._visit(url, depth)
            del self._busy[url]
            self._changed.set()
            if outcome == "again":
                continue
            self._begun -= outcome == "fresh"
            self._counts[outcome] += 1
            await self.on_page(self._counts.total(), f"{outcome}: {url[:200]}")
        self._changed.set()

    async def _visit(self, url: str, depth: int) -> str:
        """Visit one page; returns its outcome."""
        known = self._known.get(canonical_key(url))
        headers: dict[str, str] = {}
        if known is not None and self.record.conditional:
            if time.time() - known.fetched_s < self.arguments.max_age_s:
                return "fresh"
            headers = known.conditions
        page = await self.reader.page(
            self.scope, url, end_s=self.end_s, actor=self.actor, fresh_s=self.arguments.max_age_s,
            headers=headers,
        )  # fmt: skip
        if page.status in LATER:
            return self._refused(page, depth)
        self._refusals = 0
        if known is not None and (page.facts or page.status in ("unchanged", *_GONE)):
            self._answered.add(canonical_key(url))
        if page.status == "unchanged":
            return "unchanged"
        if page.status in _GONE and known is not None:
            self._lose(known)
            return "gone"
        if page.status != "ok" and not page.facts:
            return self._problem(url, page.status, page.message or "")
        return await self._read(page, depth, known)

    async def _read(self, page: ExtractedPage, depth: int, known: StoredPage | None) -> str:
        """Follow the links of a page, and store it."""
        facts = PageLinks.of(page)
        final = cleaned(page.reply.url or page.url)
        key = canonical_key(final)
        if key != canonical_key(page.url):
            mark = address_hash(key)
            if known is not None and page.reply.moved and page.status == "ok":
                self._lose(known)
            if mark in self._seen:
                return "duplicates"
            self._seen.add(mark)
            known = self._known.get(key)
        if depth < self.arguments.depth:
            async for address, _ in in_turns(followed(page, facts)):
                self._add(cleaned(address), depth + 1)
        if page.status != "ok":
            return self._problem(page.url, page.status, page.message or "")
        if facts.says("noindex"):
            if known is not None:
                self._lose(known)
            return self._problem(page.url, "noindex", "The page asks not to be stored.")
        if not self.scope.admits(final):
            return "skipped"
        return await self._store(page, facts.title, final, depth, known)

    async def _store(
        self, page: ExtractedPage, title: str, url: str, depth: int, known: StoredPage | None
    ) -> str:
        key, digest = canonical_key(url), hash_of_page(page.text)
        if self._hashes.setdefault(digest, key) != key:
            self._twins[digest] = (url, depth)
            if known is not None:
                self._lose(known, digest)
            return "duplicates"
        self._gone.pop(key, None)
        if known is not None and known.content_hash == digest:
            return "unchanged"
        now = StoredPage(
            url, digest, page.reply.etag, page.reply.modified,
            page.fetched_ms / 1000 or time.time(), depth,
        )  # fmt: skip
        result = await self.documents.store(now, title, page.text)
        if result.outcome == "refused":
            self._release(now)
            return self._problem(url, "refused", result.reason or "")
        if known is not None:
            self._release(known)
        self._known[key] = now
        return result.outcome

    def _lose(self, known: StoredPage, digest: str = "") -> None:
        """The document is deleted at the end; with a digest, if another page has that text then."""
        key = canonical_key(known.url)
        self._answered.add(key)
        self._gone[key] = (known, digest)
        self._known.pop(key, None)
        self._release(known)

    async def _delete_gone(self) -> None:
        """Delete what is gone, unless it is so much that the site may be out of order."""
        gone = [
            page for key, (page, digest) in self._gone.items()
            if not digest or self._hashes.get(digest, key) != key
        ]  # fmt: skip
        if not gone or self.keeper.lost:
            return
        if not self.arguments.allow_deletes and are_most(len(gone), len(self._answered)):
            self._counts["held"] += len(gone)
            self._notes.append(
                f"{len(gone)} documents whose pages are gone stay: they are more than half of the "
                f"{len(self._answered)} stored pages that were visited. "
                "If that is right, crawl once with allowDeletes."
            )
        else:
            self._counts["deleted"] += await self.documents.delete(gone)
        self._gone.clear()

    def _release(self, known: StoredPage) -> None:
        """A text is no longer stored for this page: another page that has it may be."""
        if self._hashes.get(known.content_hash) == canonical_key(known.url):
            del self._hashes[known.content_hash]
            if known.content_hash in self._twins:
                self._wait(*self._twins.pop(known.content_hash))

    def _refused(self, page: ExtractedPage, depth: int) -> str:
        """The host wants fewer requests: the page waits once more."""
        self._refusals += 1
        if self._refusals == MAX_REFUSALS:
            self._notes.append(f"The crawl ended early. {page.message}")
        if page.url in self._again and self._refusals < MAX_REFUSALS:
            return self._problem(page.url, page.status, page.message or "")
        self._again.add(page.url)
        self._wait(page.url, depth)
        return "again"

    def _problem(self, url: str, status: str, message: str) -> str:
        if len(self._problems) < _MAX_PROBLEMS:
            self._problems.append(CrawlProblem(url, status, message))
        return "skipped" if status in _SKIPPED or status == "noindex" else "failed"
