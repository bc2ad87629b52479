"""The pages of a site in a collection: what is stored, and storing and deleting one of them.

Requests go to the retrieval service for the caller, who needs the role of those who store
documents, and those of the collection.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TypeVar

from searchbus_bus import Bus
from searchbus_contracts import Actor, ErrorCode, Fault
from searchbus_contracts.ingest import (
    Chunk,
    DeleteReply,
    DeleteRequest,
    IngestReply,
    IngestRequest,
    IngestResult,
    NewDocument,
    document_id,
    hash_of_text,
)
from searchbus_contracts.retrieval import DocumentSummary, FieldType, ListReply, ListRequest
from searchbus_passages.chunking import cut
from searchbus_upstream import canonical_key

R = TypeVar("R")

MAX_DOCUMENT_CHARS = 200_000
"""The most of one page; the rest is left out."""
MAX_KNOWN = 20_000
"""Stored pages of a site that a crawl looks at again."""
_PER_LIST = 1_000
_TIMEOUT_S = 60.0
_PATIENCE_S = 60.0
"""How long the retrieval service may be away."""
_FIELDS: dict[str, FieldType] = {"site": "keyword", "fetched_at": "datetime"}
_PASSING = (ErrorCode.UNAVAILABLE, ErrorCode.OVERLOADED, ErrorCode.DEADLINE_EXCEEDED)


@dataclass(frozen=True, slots=True)
class StoredPage:
    """A page as it is in the collection, fetched at `fetched_s` of the epoch; texts may be
    empty."""

    url: str
    content_hash: str
    etag: str = ""
    modified: str = ""
    fetched_s: float = 0.0
    depth: int = 0

    @classmethod
    def of(cls, summary: DocumentSummary) -> StoredPage:
        """Read it from the document's metadata."""
        about = {name: str(value or "") for name, value in summary.metadata.items()}
        try:
            fetched_s = datetime.fromisoformat(about.get("fetched_at", "")).timestamp()
            depth = int(about.get("depth", ""))
        except ValueError:  # another tool stored it
            fetched_s, depth = 0.0, 0
        return cls(
            summary.url or "", about.get("content_hash", ""), about.get("etag", ""),
            about.get("last_modified", ""), fetched_s, depth,
        )  # fmt: skip

    @property
    def conditions(self) -> dict[str, str]:
        """Headers by which the site may answer that the page has not changed."""
        asked = {"If-None-Match": self.etag, "If-Modified-Since": self.modified}
        return {name: value for name, value in asked.items() if value}


class SiteDocuments:
    """The documents of one site in one collection, within the seconds that the caller has left."""

    def __init__(
        self, bus: Bus, actor: Actor, collection: str, site: str, left_s: Callable[[], float]
    ) -> None:
        self._bus = bus
        self._actor = actor
        self.collection = collection
        self._site = site
        self._left_s = left_s

    async def known(self) -> dict[str, StoredPage]:
        """Canonical key → page, at most MAX_KNOWN; none where the collection does not exist."""
        found: dict[str, StoredPage] = {}
        cursor: str | None = None
        while len(found) < MAX_KNOWN:
            request = ListRequest(
                collection=self.collection, cursor=cursor, limit=_PER_LIST,
                where={"site": self._site},
            )  # fmt: skip
            try:
                page = await self._ask("list", request, ListReply)
            except Fault as fault:
                # Invalid: the collection has no field `site`, and so no page of a crawl.
                if fault.code in (ErrorCode.NOT_FOUND, ErrorCode.INVALID_ARGUMENT):
                    break
                raise
            for summary in page.documents:
                if summary.url and summary.metadata.get("site") == self._site:
                    found[canonical_key(summary.url)] = StoredPage.of(summary)
            cursor = page.next_cursor
            if cursor is None:
                break
        return found

    async def store(self, page: StoredPage, title: str, text: str) -> IngestResult:
        """Store a page; raises Fault."""
        text = text[:MAX_DOCUMENT_CHARS].encode("utf-8", "replace").decode()
        pieces = await asyncio.to_thread(cut, text, markdown=True)
        fetched = datetime.fromtimestamp(page.fetched_s, UTC)
        document = NewDocument(
            document_id=self._id(page.url),
            title=" ".join(title.split())[:1000] or page.url[:1000],
            text=text,
            chunks=tuple(Chunk(start=p.start, end=p.end, section=p.section) for p in pieces),
            url=page.url,
            metadata={
                "site": self._site,
                "fetched_at": fetched.isoformat(timespec="seconds"),
                "content_hash": page.content_hash,
                "depth": page.depth,
                **({"etag": page.etag} if page.etag else {}),
                **({"last_modified": page.modified} if page.modified else {}),
            },
        )
        request = IngestRequest(collection=self.collection, documents=(document,), fields=_FIELDS)
        return (await self._ask("ingest", request, IngestReply)).results[0]

    async def delete(self, pages: Sequence[StoredPage]) -> int:
        """Delete pages; how many there were. Raises Fault."""
        if not pages:  # a request without ids deletes the whole collection
            return 0
        ids = tuple(self._id(page.url) for page in pages)
        request = DeleteRequest(collection=self.collection, document_ids=ids)
        return (await self._ask("delete", request, DeleteReply)).documents

    def _id(self, url: str) -> str:
        return document_id(self.collection, canonical_key(url))

    async def _ask(self, verb: str, message: object, reply: type[R]) -> R:
        """Send a request, again while the service is away for a while."""
        loop = asyncio.get_running_loop()
        end_s = loop.time() + min(_PATIENCE_S, self._left_s())
        pause_s = 0.5
        while True:
            try:
                return await self._bus.request(
                    self._bus.subjects.endpoint("retrieval", verb), message, reply,
                    service="retrieval", actor=self._actor,
                    timeout_s=max(1.0, min(_TIMEOUT_S, self._left_s())),
                )  # fmt: skip
            except Fault as fault:
                passing = fault.code in _PASSING and fault.failure.retryable
                if not passing or loop.time() + pause_s > end_s:
                    raise
            await asyncio.sleep(pause_s)
            pause_s = min(5.0, 2 * pause_s)


def hash_of_page(text: str) -> str:
    """The hash of what `store` stores of a text."""
    return hash_of_text(text[:MAX_DOCUMENT_CHARS].encode("utf-8", "replace").decode())
