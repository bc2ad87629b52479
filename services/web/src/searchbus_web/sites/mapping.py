"""The addresses of a site: from its sitemaps, and from the links of its pages, breadth first."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from typing import Annotated
from urllib.parse import urlsplit

import msgspec

from searchbus_contracts import Actor, decode
from searchbus_contracts.codec import doc
from searchbus_pages import Sitemap
from searchbus_upstream import canonical_key
from searchbus_upstream.text import inert, plain

from ..extraction.extractor import ExtractedPage, Extractor
from ..extraction.facts import Link
from ..extraction.fetching import TOKEN, Fetcher, FetchError
from ..extraction.pool import ReaderPool
from ..extraction.reading import SitemapQuestion
from .politeness import LATER, Politeness, SiteVisit
from .scope import SiteScope, cleaned, in_turns

MAX_ADDRESSES = 2_000
"""Addresses of one map."""
MAX_SITEMAPS = 20
MAX_NESTING = 2
"""Sitemap indexes inside of indexes."""
MAX_MAP_PAGES = 20
"""Pages whose links are read for one map."""
FRESH_S = 600.0
"""How old a map may be, and a page whose links are read for it."""
PAGE_TIMEOUT_S = 20.0
_MAX_NOTES = 10
_ACCEPT = {"Accept": "application/xml,text/xml,text/plain,application/gzip,*/*;q=0.5"}
OnStep = Callable[[int, str], Awaitable[None]]
"""Awaited with the number of addresses so far, and what was read last."""


class FoundAddress(msgspec.Struct, omit_defaults=True, rename="camel"):
    """One address of a site."""

    url: str
    origin: Annotated[str, doc("sitemap or link")]
    text: Annotated[str, doc("Untrusted text of the link")] = ""
    last_modified: Annotated[str, doc("As the sitemap says")] = ""
    depth: Annotated[int, doc("Links away from url; 0: of a sitemap")] = 0


class SiteAddresses(msgspec.Struct):
    """A map.

    Args:
        cut: whether the site has more than the limits admit, or it stopped early.
        stopped: whether it stopped for want of time, or because the site refused: another caller
            may find more.
    """

    addresses: list[FoundAddress] = []
    notes: list[str] = []
    cut: bool = False
    stopped: bool = False


class PageLinks(msgspec.Struct):
    """What a crawl needs of a page's facts."""

    title: str = ""
    meta: dict[str, str] = {}
    links: list[Link] = []
    header: str = ""

    @classmethod
    def of(cls, page: ExtractedPage) -> PageLinks:
        """The links of a page; none where it could not be read."""
        links = decode(page.facts, cls) if page.facts else cls()
        links.header = page.reply.robots
        return links

    def says(self, word: str) -> bool:
        """Whether the page or its header X-Robots-Tag tells robots `noindex` or `nofollow`.

        A word of the header that follows another robot's name and a comma is obeyed too: several
        headers arrive as one.
        """
        own = [part.strip().removeprefix(f"{TOKEN}:") for part in self.header.lower().split(",")]
        said = [*(self.meta.get(name, "").lower() for name in ("robots", TOKEN)), *(
            part for part in own if ":" not in part
        )]  # fmt: skip
        parts = ",".join(said)
        return word in parts or "none" in [part.strip() for part in parts.split(",")]


@dataclass(slots=True)
class SiteReader:
    """Reads sitemaps and pages of a site in its pace; the parts that maps and crawls share."""

    fetcher: Fetcher
    pool: ReaderPool
    extractor: Extractor
    politeness: Politeness

    async def page(
        self,
        scope: SiteScope,
        url: str,
        *,
        end_s: float,
        actor: Actor,
        fresh_s: float,
        headers: dict[str, str] | None = None,
    ) -> ExtractedPage:
        """A page in its turn; a failure is its status."""
        visit = SiteVisit(
            self.politeness, scope, url, caller=actor.subject, end_s=end_s, headers=headers or {}
        )
        return await self.extractor.visit(
            url, visit, timeout_s=PAGE_TIMEOUT_S, actor=actor, fresh_s=fresh_s
        )

    async def sitemap(self, scope: SiteScope, url: str, end_s: float, caller: str) -> Sitemap:
        """One sitemap; raises FetchError."""
        visit = SiteVisit(self.politeness, scope, url, caller=caller, end_s=end_s, headers=_ACCEPT)
        timeout_s = min(PAGE_TIMEOUT_S, await visit.begin())
        _, reply, _ = await self.fetcher.get(url, timeout_s=timeout_s, caller=caller, visit=visit)
        if reply.status != 200:
            raise FetchError(f"http_{reply.status}", f"The site answers HTTP {reply.status}.")
        found = await self.pool.read_json(SitemapQuestion(reply.body), caller=caller)
        if isinstance(found, str):
            raise FetchError(found, "It is no sitemap, or has a document type.")
        return decode(found, Sitemap)


@dataclass(slots=True)
class SiteMapping:
    """One map in the making.

    Args:
        depth: of the links that are followed; 0: sitemaps only.
        end_s: of the loop's clock.
    """

    reader: SiteReader
    scope: SiteScope
    depth: int
    actor: Actor
    end_s: float
    on_step: OnStep
    found: SiteAddresses = field(default_factory=SiteAddresses)
    _seen: set[str] = field(default_factory=set)

    async def run(self) -> SiteAddresses:
        """Read sitemaps, then links; what cannot be read is in the notes."""
        await self._read_sitemaps()
        if self.depth:
            await self._read_links()
        return self.found

    def _add(self, url: str, origin: str, text: str, modified: str, depth: int) -> bool:
        """Whether the address is new, and of the map."""
        url = cleaned(url)
        key = canonical_key(url)
        if key in self._seen or not self.scope.admits(url):
            return False
        if len(self.found.addresses) >= MAX_ADDRESSES:
            self.found.cut = True
            return False
        self._seen.add(key)
        self.found.addresses.append(FoundAddress(url, origin, text, modified, depth))
        return True

    @property
    def _left_s(self) -> float:
        left_s = self.end_s - asyncio.get_running_loop().time()
        self._stop(early=left_s <= 0)
        return left_s

    def _stop(self, *, early: bool) -> None:
        self.found.cut |= early
        self.found.stopped |= early

    def _note(self, url: str, message: str, status: str = "") -> None:
        self._stop(early=status in LATER)
        self.found.cut |= status == "too_large"
        if len(self.found.notes) < _MAX_NOTES:
            self.found.notes.append(f"{inert(plain(url, max_chars=300))}: {message}")

    async def _read_sitemaps(self) -> None:
        parts = urlsplit(self.scope.start)
        try:
            rules = await self.reader.politeness.robots.about(
                self.scope.start, self._left_s, caller=self.actor.subject
            )
        except FetchError as failure:
            self._note("robots.txt", failure.message, failure.status)
            return
        usual = f"{parts.scheme}://{parts.netloc}/sitemap.xml"
        queue = deque((url, 0) for url in rules.sitemaps or [usual])
        asked: set[str] = set()
        while queue and len(self.found.addresses) < MAX_ADDRESSES:
            url, nesting = queue.popleft()
            if url in asked:
                continue
            if not self.scope.has(url):
                self._note(url, "It is of another site.")
                continue
            if len(asked) >= MAX_SITEMAPS or self._left_s <= 0:
                self.found.cut = True
                return
            asked.add(url)
            try:
                sitemap = await self.reader.sitemap(self.scope, url, self.end_s, self.actor.subject)
            except FetchError as failure:
                if url != usual or rules.sitemaps or failure.status != "http_404":
                    self._note(url, failure.message, failure.status)
                continue
            self.found.cut |= sitemap.cut
            async for address, modified in in_turns(sitemap.pages):
                self._add(address, "sitemap", "", modified, 0)
            if nesting < MAX_NESTING:
                queue.extend((inner, nesting + 1) for inner in sitemap.sitemaps[:MAX_SITEMAPS])
            elif sitemap.sitemaps:
                self._note(url, "Its sitemap indexes are nested too deeply.")
            await self.on_step(len(self.found.addresses), url)
        self.found.cut |= bool(queue)

    async def _read_links(self) -> None:
        queue = deque([(self.scope.start, 0)])
        read = 0
        while queue and len(self.found.addresses) < MAX_ADDRESSES:
            url, depth = queue.popleft()
            if read >= MAX_MAP_PAGES or self._left_s <= 0:
                self.found.cut = True
                return
            read += 1
            page = await self.reader.page(
                self.scope, url, end_s=self.end_s, actor=self.actor, fresh_s=FRESH_S
            )
            if page.status != "ok" and not page.facts:
                self._note(url, page.message or page.status, page.status)
                if page.status in LATER and page.status != "timeout":
                    return
                continue
            links = PageLinks.of(page)
            self._add(url, "link", links.title, "", depth)
            async for address, text in in_turns(followed(page, links)):
                new = self._add(address, "link", text, "", depth + 1)
                if new and depth + 1 < self.depth:
                    queue.append((cleaned(address), depth + 1))
            await self.on_step(len(self.found.addresses), url)


def followed(page: ExtractedPage, links: PageLinks) -> Iterator[tuple[str, str]]:
    """Addresses and texts of the links that robots may follow; the page's own after redirects."""
    if page.reply.url and page.reply.url != page.url:
        yield page.reply.url, links.title
    if not links.says("nofollow"):
        for link in links.links:
            yield link.url, link.text
