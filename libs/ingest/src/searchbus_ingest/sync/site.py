"""A feed or a sitemap: its entries, and the text of their pages."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from hashlib import sha256
from typing import Literal
from urllib.parse import urlsplit

from searchbus_contracts.retrieval import Metadata
from searchbus_pages import (
    FeedEntry,
    FeedError,
    Sitemap,
    decode_text,
    read_feed,
    read_sitemap,
)

from ..sources.content import Content
from ..sources.fetching import FetchedPage, PageUnavailableError, SiteClient
from ..sources.item import Item, Reason, SkipError, make_document, unread
from ..sources.reading import Reader
from .source import SourceEntry, SourceListing, SourceUnreadableError

MAX_LISTING_BYTES = 50 * 2**20
"""A feed or a sitemap: the limit of the sitemaps' protocol."""
MAX_PAGE_BYTES = 16 * 2**20
MAX_PAGES = 50_000
MAX_SITEMAPS = 200
MAX_ENTRIES = 5000
"""The newest of a feed: the page of each may have to be fetched."""
_FAILED_MAPS = 3
"""After so many the rest is not tried: each may take a minute."""
_HEAD_BYTES = 4096
_SITEMAP = re.compile(
    r"\s*(?:http|(?:<[?!][^<>]*>\s*)*<(?:\w{1,20}:)?(?:urlset|sitemapindex)\b)",
    re.I,
)
"""How a sitemap begins that is not packed: as lines of addresses, or with its first element."""
_CUT = "a sitemap has more pages than are read, or ends too early"
_SUFFIXES = {
    "text/html": ".html", "application/xhtml+xml": ".html", "text/plain": ".txt",
    "text/markdown": ".md",
}  # fmt: skip
Kind = Literal["feed", "sitemap", ""]


class SiteSource:
    """A feed or a sitemap.

    A feed with summaries only has the pages of its entries fetched. Of a sitemap, pages of its own
    host are fetched: where the site says when they changed, only then, else with their validators.

    Args:
        kind: what the address must be; empty takes both.
    """

    def __init__(self, url: str, kind: Kind, client: SiteClient) -> None:
        self._url = url
        self._kind = kind
        self._client = client
        self._reader = Reader()

    async def close(self) -> None:
        """See `SyncSource`."""
        await self._reader.close()
        await self._client.close()

    async def entries(self, known: str) -> SourceListing:
        """See `SyncSource`."""
        try:
            page = await self._client.get(self._url, max_bytes=MAX_LISTING_BYTES, known=known)
            kind = "sitemap" if _is_sitemap(page.body[:_HEAD_BYTES]) else "feed"
            if self._kind not in ("", kind):
                raise SourceUnreadableError(f"{self._url} is a {kind}. Write {kind}+{self._url}.")
            if kind == "sitemap":
                return await self._of_map(await self._sitemap(page))
            found = await asyncio.to_thread(read_feed, page.body, page.url, page.charset)
            return _of_feed(found, page)
        except (PageUnavailableError, FeedError) as error:
            raise SourceUnreadableError(f"{self._url}: {error}") from None

    async def _sitemap(self, page: FetchedPage) -> Sitemap:
        try:
            found = await asyncio.to_thread(read_sitemap, page.body, most=MAX_PAGES)
        except ValueError as error:
            raise PageUnavailableError(str(error)) from None
        if found.cut and not found.pages and not found.sitemaps:
            raise PageUnavailableError("it is not a sitemap that can be read")
        return found

    async def _of_map(self, first: Sitemap) -> SourceListing:
        found = SourceListing([])
        pages: dict[str, str] = {}
        waiting: list[str] = []
        known, failed = {self._url}, 0

        def take(one: Sitemap) -> None:
            if one.cut:
                found.partial = _CUT
            pages.update(one.pages)
            new = [url for url in dict.fromkeys(one.sitemaps) if url not in known]
            admitted = new[: MAX_SITEMAPS + 1 - len(known)]
            if len(admitted) < len(new):
                found.partial = found.partial or f"more than {MAX_SITEMAPS} sitemaps"
            known.update(admitted)
            waiting.extend(admitted)

        take(first)
        while waiting and failed < _FAILED_MAPS and len(pages) <= MAX_PAGES:
            url = waiting.pop()
            try:
                take(await self._map(url))
            except PageUnavailableError as error:
                found.partial = f"{url}: {error}"
                failed += 1
        if waiting:
            found.partial = found.partial or "not all of its sitemaps are read"
        host = _host(self._url)
        own = [url for url in pages if _host(url) == host]
        if len(own) < len(pages):
            problem = f"{len(pages) - len(own)} pages of other hosts are not read"
            found.skipped.append(
                Item(self._url, problem=problem, reason=Reason.OUTSIDE, left_out=True)
            )
        if len(own) > MAX_PAGES:
            found.partial = f"more than {MAX_PAGES:,} pages; those behind them are not read"
        found.entries = [SourceEntry(url, pages[url]) for url in own[:MAX_PAGES]]
        return found

    async def _map(self, url: str) -> Sitemap:
        if _host(url) != _host(self._url):
            raise PageUnavailableError("it is of another host")
        page = await self._client.get(url, max_bytes=MAX_LISTING_BYTES, polite=True)
        return await self._sitemap(page)

    async def read(self, entry: SourceEntry, known: str, collection: str) -> AsyncIterator[Item]:
        """See `SyncSource`."""
        of_feed: FeedEntry | None = entry.content
        url = entry.name if of_feed is None else of_feed.url
        note = None
        body = b"" if of_feed is None else of_feed.text.encode("utf-8", "replace")
        suffix, charset = ".html", "utf-8"
        if of_feed is None or not of_feed.whole:
            try:
                page = await self._client.get(
                    url, max_bytes=MAX_PAGE_BYTES, known="" if of_feed else known, polite=True
                )
                body, suffix, charset = page.body, _suffix_of(page), page.charset or ""
                entry.stamp = entry.stamp or page.stamp
            except PageUnavailableError as error:
                if of_feed is None and error.gone:
                    return
                if of_feed is None or not error.lasts or not body.strip():
                    yield Item(entry.name, problem=f"not fetched: {error}")
                    return
                note = f"only its summary is stored, since its page is not fetched: {error}"
        try:
            content = await self._reader.read(body, suffix, charset or None)
        except (SkipError, ValueError) as error:
            yield unread(entry.name, error)
            return
        yield await asyncio.to_thread(_document, entry, collection, content, url, note)


def _is_sitemap(head: bytes) -> bool:
    return head.startswith(b"\x1f\x8b") or bool(_SITEMAP.match(decode_text(head, markup=True)))


def _of_feed(feed: list[FeedEntry], page: FetchedPage) -> SourceListing:
    found = SourceListing([], stamp=page.stamp)
    days = [entry.day for entry in feed if entry.day]
    descending = days == sorted(days, reverse=True)  # before it is cut, which sorts it
    if len(feed) > MAX_ENTRIES:
        problem = (
            f"{len(feed) - MAX_ENTRIES} entries behind the newest {MAX_ENTRIES:,} are not read"
        )
        found.skipped.append(
            Item(page.url, problem=problem, reason=Reason.TOO_LARGE, left_out=True)
        )
        feed = sorted(feed, key=lambda entry: entry.day, reverse=True)[:MAX_ENTRIES]
    for one in {entry.key: entry for entry in reversed(feed)}.values():
        parts = map(str, one[:-1])  # some feeds call every entry changed each time
        stamp = sha256("\0".join(parts).encode("utf-8", "replace")).hexdigest()[:32]
        found.entries.append(SourceEntry(one.key, stamp, one))
    # What left the end of the feed is no deletion. It is not newer than the last change of the last
    # entry, whether the feed is sorted by that or by the first day; in another order all may leave.
    dated = [entry for entry in feed if entry.day]
    found.gone_after = dated[-1].changed if dated and descending else "9999-12-31"
    return found


def _document(
    entry: SourceEntry, collection: str, content: Content, url: str, note: str | None
) -> Item:
    name, of_feed = entry.name, entry.content
    title, day = (of_feed.title, of_feed.day) if of_feed is not None else ("", "")
    metadata: Metadata = {"date": day} if day else {}
    return make_document(
        name, collection=collection, source_id=name, title=title or content.title or url,
        text=content.text, url=url or None, metadata=metadata, markdown=content.markdown,
        note=note or content.note,
    )  # fmt: skip


def _suffix_of(page: FetchedPage) -> str:
    if page.media_type not in _SUFFIXES:
        raise PageUnavailableError(f"it is {page.media_type[:60] or 'of unknown type'}", 415)
    return _SUFFIXES[page.media_type]


def _host(url: str) -> str:
    try:
        return urlsplit(url).netloc.lower().removeprefix("www.")
    except ValueError:
        return ""
