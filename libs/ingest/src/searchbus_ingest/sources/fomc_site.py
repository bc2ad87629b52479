"""Reads FOMC statements and minutes from the site of the Federal Reserve.

Pages are kept on disk with their validators and not fetched again, except the calendar of recent
years.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import date
from hashlib import sha256
from pathlib import Path
from urllib.parse import urljoin, urlsplit

from searchbus_contracts import ErrorCode, Fault
from searchbus_pages import decode_text, read_html
from searchbus_runtime.files import write_atomically

from .fetching import PageUnavailableError, SiteClient
from .item import Item, Reason, SourceUnchangedError, make_document

BASE_URL = "https://www.federalreserve.gov"
CALENDAR = "/monetarypolicy/fomccalendars.htm"
FIRST_HISTORICAL_YEAR = 1993
MAX_PAGE_BYTES = 16 * 1024 * 1024

_STATEMENT = re.compile(
    r"/newsevents/pressreleases/monetary(\d{8})a\d?\.htm$"
    r"|/newsevents/press/monetary/(\d{8})a\.htm$"
    r"|/boarddocs/press/(?:monetary|general)/\d{4}/(\d{8})(?:default\.htm|/?(?:default\.htm)?)$"
)
_MINUTES = re.compile(
    r"/monetarypolicy/fomcminutes(\d{8})\.htm$|/fomc/minutes/(\d{8})\.htm$"
    r"|/fomc/MINUTES/\d{4}/(\d{8})min\.htm$"
)
_HREF = re.compile(r"""href\s*=\s*["']([^"'#]+)""", re.I)
_CONTENT = "#article, #content, #leftText"


@dataclass(frozen=True, slots=True, order=True)
class _Link:
    day: date
    kind: str
    url: str


class FomcSite:
    """Reads the site through a cache folder.

    Args:
        cache: folder of pages and their validators; a second run continues the first.
        base_url: another address, for tests and mirrors.
        pause_s: minimum time between two requests.
    """

    def __init__(self, cache: Path, *, base_url: str = BASE_URL, pause_s: float = 1.0) -> None:
        self._cache = cache
        self._base_url = base_url.rstrip("/")
        self._client = SiteClient(self._base_url, {}, pause_s)
        cache.mkdir(parents=True, exist_ok=True)

    async def read(self, collection: str) -> AsyncIterator[Item]:
        """Every statement and minutes of the site, oldest first; use it once. Raises
        Fault(unavailable), also without its robots.txt."""
        try:
            links, problems = await self._links()
            for problem in problems:
                yield problem
            for link in links:
                yield await self._document(link, collection)
        finally:
            await self._client.close()

    async def _document(self, link: _Link, collection: str) -> Item:
        title = f"FOMC {link.kind.capitalize()}, {link.day:%B} {link.day.day}, {link.day.year}"
        source_id = f"{link.kind}-{link.day.isoformat()}"
        try:
            page = await self._fetch(link.url, keep=True)
            _, text = read_html(decode_text(page, markup=True), selector=_CONTENT)
        except (PageUnavailableError, ValueError) as error:
            return Item(link.url, problem=f"not fetched: {error}", source_id=source_id)
        return await asyncio.to_thread(
            make_document,
            link.url,
            collection=collection,
            source_id=source_id,
            title=title,
            text=text,
            url=link.url,
            metadata={"date": link.day.isoformat(), "type": link.kind},
            markdown=True,
        )

    async def _links(self) -> tuple[list[_Link], list[Item]]:
        calendar = f"{self._base_url}{CALENDAR}"
        years = range(FIRST_HISTORICAL_YEAR, time.gmtime().tm_year - 4)
        historical = (f"{self._base_url}/monetarypolicy/fomchistorical{year}.htm" for year in years)
        found: dict[tuple[date, str], _Link] = {}
        problems: list[Item] = []
        for page_url in (calendar, *historical):
            try:
                page = await self._fetch(page_url, keep=page_url != calendar)
            except PageUnavailableError as error:
                if page_url == calendar and not error.lasts:
                    raise Fault(
                        ErrorCode.UNAVAILABLE,
                        f"{self._base_url} cannot be read: {error}. Run the same command again "
                        "later.",
                    ) from None
                if not error.gone:  # a year may have no page yet
                    problem = f"not fetched: {error}"
                    problems.append(Item(page_url, problem=problem, reason=Reason.NOT_LISTED))
                continue
            for href in _HREF.findall(decode_text(page, markup=True)):
                link = self._link(urljoin(page_url, href))
                if link is not None:
                    found.setdefault((link.day, link.kind), link)
        return sorted(found.values()), problems

    def _link(self, url: str) -> _Link | None:
        if urlsplit(url).netloc != urlsplit(self._base_url).netloc:
            return None
        for kind, pattern in (("statement", _STATEMENT), ("minutes", _MINUTES)):
            match = pattern.search(url)
            if match is not None:
                digits = next(group for group in match.groups() if group)
                try:
                    return _Link(date.fromisoformat(digits), kind, url)
                except ValueError:
                    return None
        return None

    async def _fetch(self, url: str, *, keep: bool) -> bytes:
        """The page: from the cache if `keep` and it is there, otherwise fetched or revalidated.
        What may be there the next time is asked for twice. Raises PageUnavailableError."""
        path = self._cache / sha256(url.encode()).hexdigest()[:32]
        stamp = path.with_suffix(".stamp")
        if keep and path.exists():
            return path.read_bytes()
        known = stamp.read_text() if path.exists() and stamp.exists() else ""
        for is_last in (False, True):
            try:
                page = await self._client.get(
                    url, max_bytes=MAX_PAGE_BYTES, known=known, polite=True
                )
            except SourceUnchangedError:
                break
            except PageUnavailableError as error:
                if is_last or error.lasts:
                    raise
            else:
                write_atomically(path, page.body)
                write_atomically(stamp, page.stamp)
                break
        return path.read_bytes()
