"""Reads FOMC statements and minutes from the site of the Federal Reserve.

It sends one request a second and obeys robots.txt. Pages are kept on disk with their validators
and not fetched again, except the calendar of recent years.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urljoin, urlsplit

import httpx

from searchbus_contracts import ErrorCode, Fault
from searchbus_pages import TooComplexError, decode_text, read_html, read_robots
from searchbus_runtime.files import write_atomically

from .item import Item, Reason, make_document

if TYPE_CHECKING:
    from protego import Protego

BASE_URL = "https://www.federalreserve.gov"
TOKEN = "searchbus-fomc"  # noqa: S105  (the product token of our User-Agent)
USER_AGENT = f"{TOKEN}/0.1 (document ingest; one request a second)"
CALENDAR = "/monetarypolicy/fomccalendars.htm"
FIRST_HISTORICAL_YEAR = 1993
MAX_PAGE_BYTES = 16 * 1024 * 1024
_ATTEMPTS = 4

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
        self._pause_s = pause_s
        self._next_request_s = 0.0
        self._client = httpx.Client(
            headers={"User-Agent": USER_AGENT}, timeout=30, follow_redirects=True, trust_env=False
        )
        self._robots: Protego | None = None
        cache.mkdir(parents=True, exist_ok=True)

    def read(self, collection: str) -> Iterator[Item]:
        """Every statement and minutes of the site, oldest first; raises Fault(unavailable), also
        without its robots.txt."""
        links, problems = self._links()
        yield from problems
        for link in links:
            title = f"FOMC {link.kind.capitalize()}, {link.day:%B} {link.day.day}, {link.day.year}"
            source_id = f"{link.kind}-{link.day.isoformat()}"
            try:
                page = self._fetch(link.url, keep=True)
                _, text = read_html(decode_text(page, markup=True), selector=_CONTENT)
            except (httpx.HTTPError, PermissionError, ValueError) as error:
                yield Item(link.url, problem=f"not fetched: {error}", source_id=source_id)
                continue
            yield make_document(
                link.url,
                collection=collection,
                source_id=source_id,
                title=title,
                text=text,
                url=link.url,
                metadata={"date": link.day.isoformat(), "type": link.kind},
                markdown=True,
            )

    def _links(self) -> tuple[list[_Link], list[Item]]:
        pages = [f"{self._base_url}{CALENDAR}"]
        this_year = time.gmtime().tm_year
        pages += [
            f"{self._base_url}/monetarypolicy/fomchistorical{year}.htm"
            for year in range(FIRST_HISTORICAL_YEAR, this_year - 4)
        ]
        found: dict[tuple[date, str], _Link] = {}
        problems: list[Item] = []
        for page_url in pages:
            try:
                page = self._fetch(page_url, keep=page_url != pages[0])
            except (httpx.HTTPError, PermissionError, ValueError) as error:
                if not _is_missing(error):  # a year may have no page yet
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

    def _fetch(self, url: str, *, keep: bool) -> bytes:
        """The page: from the cache if `keep` and it is there, otherwise fetched or revalidated."""
        path = self._cache / sha256(url.encode()).hexdigest()[:32]
        meta = path.with_suffix(".json")
        if keep and path.exists():
            return path.read_bytes()
        if not self._allowed(url):
            raise PermissionError("robots.txt forbids it")
        headers = {}
        if path.exists() and meta.exists():
            validators = json.loads(meta.read_text())
            if validators.get("etag"):
                headers["If-None-Match"] = validators["etag"]
            if validators.get("last-modified"):
                headers["If-Modified-Since"] = validators["last-modified"]
        response = self._get(url, headers)
        if response.status_code == httpx.codes.NOT_MODIFIED:
            return path.read_bytes()
        response.raise_for_status()
        if len(response.content) > MAX_PAGE_BYTES:
            raise ValueError("the page is larger than 16 MiB")
        write_atomically(path, response.content)
        keys = ("etag", "last-modified")
        found = {k: response.headers.get(k) for k in keys}
        write_atomically(meta, json.dumps({"url": url, **found}))
        return response.content

    def _get(self, url: str, headers: dict[str, str]) -> httpx.Response:
        for attempt in range(1, _ATTEMPTS + 1):
            wait_s = self._next_request_s - time.monotonic()
            if wait_s > 0:
                time.sleep(wait_s)
            self._next_request_s = time.monotonic() + self._pause_s
            try:
                response = self._client.get(url, headers=headers)
            except httpx.TransportError as error:
                if attempt < _ATTEMPTS:
                    continue
                if isinstance(error, httpx.ConnectError | httpx.ConnectTimeout):
                    raise self._unreachable(f"cannot be reached: {error}") from error
                raise
            if response.status_code not in (429, 500, 502, 503, 504) or attempt == _ATTEMPTS:
                return response
            wanted = response.headers.get("retry-after", "")
            pause_s = float(wanted) if wanted.isdecimal() else self._pause_s * 2**attempt
            self._next_request_s = time.monotonic() + min(pause_s, 60.0)
        raise AssertionError("unreachable")

    def _allowed(self, url: str) -> bool:
        if self._robots is None:
            # RFC 9309, 2.3.1: everything is allowed without a robots.txt, and nothing where the
            # server fails to give it.
            try:
                response = self._get(f"{self._base_url}/robots.txt", {})
            except httpx.TransportError as error:
                raise self._unreachable(f"does not give its robots.txt: {error}") from error
            if response.is_server_error:
                raise self._unreachable(f"does not give its robots.txt: {response.status_code}")
            try:
                self._robots = read_robots(response.content if response.is_success else b"")
            except TooComplexError as error:
                raise self._unreachable(f"has a robots.txt that is not read: {error}") from None
        return bool(self._robots.can_fetch(url, TOKEN))

    def _unreachable(self, why: str) -> Fault:
        return Fault(
            ErrorCode.UNAVAILABLE,
            f"{self._base_url} {why}. What was sent until then is stored; run the same command "
            "again later to continue.",
        )


def _is_missing(error: Exception) -> bool:
    return (
        isinstance(error, httpx.HTTPStatusError)
        and error.response.status_code == httpx.codes.NOT_FOUND
    )
