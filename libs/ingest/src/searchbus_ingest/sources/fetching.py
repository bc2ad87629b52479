"""Fetches files and pages of one site: guarded, paced, limited, conditional.

Only public addresses are connected to, also behind redirects and links. An address that the
operator named as the source may be another one, with this port only; so may the hosts of the
allowlist SEARCHBUS_WEB_ROUTES.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import urljoin, urlsplit

from searchbus_contracts import VERSION
from searchbus_pages import MAX_ROBOTS_BYTES, TooComplexError, charset_of, read_robots
from searchbus_upstream import (
    Cookies,
    GuardedBackend,
    HttpClient,
    HttpReply,
    HttpRequest,
    UpstreamTimeoutError,
    UpstreamUnreachableError,
    is_public_host,
    is_public_url,
    retry_after_s,
)

from .item import SourceUnchangedError

TOKEN = "searchbus-sync"  # noqa: S105  (the product token of our User-Agent)
USER_AGENT = f"{TOKEN}/{VERSION} (+https://github.com/searchbus/searchbus; one request a second)"
TIMEOUT_S = 60.0
MAX_REDIRECTS = 5
MAX_PAUSE_S = 120.0
"""The longest pause that a site may ask for (Retry-After)."""
_DEFAULT_PAUSE_S = 30.0
MAX_FAILURES = 5
"""Requests in a row that a host may fail; each may take a minute, or two with its pause."""
_MAX_ORIGINS = 64
"""Whose robots.txt is kept, as bytes: with hostile rules one takes 70 MB."""
_MAX_STAMP_CHARS = 1000
_REDIRECTS = frozenset({301, 302, 303, 307, 308})


class PageUnavailableError(Exception):
    """A page cannot be fetched; the message says why. `status`: the response's; 0 without one, 403
    where robots.txt forbids it."""

    def __init__(self, message: str, status: int = 0) -> None:
        super().__init__(message)
        self.gone = status in (404, 410)
        self.lasts = 400 <= status < 500 and status not in (408, 425, 429)


@dataclass(frozen=True, slots=True)
class FetchedPage:
    """A response with status 200, its URL after all redirects, and its validators (ETag,
    Last-Modified) as one text, if any."""

    url: str
    body: bytes
    media_type: str
    charset: str | None
    stamp: str


class SiteClient:
    """Fetches what belongs to one source, one request at a time.

    Args:
        source: its address, as the operator gave it.
        routes: allowlist of hosts, as of `GuardedBackend`.
        pause_s: between two requests to one host.
    """

    def __init__(self, source: str, routes: Mapping[str, str], pause_s: float) -> None:
        parts = urlsplit(source)
        host = (parts.hostname or "").rstrip(".")
        admitted = dict(routes)
        if not is_public_host(host):
            admitted[host] = f"{host}:{parts.port or (443 if parts.scheme == 'https' else 80)}"
        self._backend = GuardedBackend(routes=admitted)
        self._client = HttpClient("sync", backend=self._backend)
        self._pause_s = pause_s
        self._next_s: dict[str, float] = {}
        self._failures: Counter[str] = Counter()
        self._robots: dict[str, bytes | str] = {}
        """By origin; or why it cannot be read."""

    async def close(self) -> None:
        """Close the connections."""
        await self._client.close()

    async def get(
        self, url: str, *, max_bytes: int, known: str = "", polite: bool = False, cut: bool = False
    ) -> FetchedPage:
        """Fetch a page, following its redirects.

        Args:
            known: the stamp of what is stored; a request with it is conditional.
            polite: whether robots.txt is obeyed, as for pages that no operator has named.
            cut: whether a larger page is cut.

        Raises:
            SourceUnchangedError: the page still has the stamp.
            PageUnavailableError: it cannot be fetched.
        """
        cookies = Cookies()  # some pages redirect to themselves until theirs comes back
        for _ in range(MAX_REDIRECTS + 1):
            self._require_allowed(url)
            if polite:
                await self._require_polite(url)
            reply = await self._send(url, known, max_bytes, cookies, cut)
            location = reply.headers.get("location", "")
            if reply.status in _REDIRECTS and location:
                target = _joined(url, location)
                if url.startswith("https:") and target.startswith("http:"):
                    raise PageUnavailableError("it redirects from https to http")
                url = target
            else:
                return _page(url, reply, known)
        raise PageUnavailableError(f"it redirects more than {MAX_REDIRECTS} times")

    def _require_allowed(self, url: str) -> None:
        try:
            host = urlsplit(url).hostname or ""
        except ValueError:
            host = ""
        if url.startswith(("http://", "https://")) and self._backend.allows_host(host):
            return
        if not is_public_url(url):
            raise PageUnavailableError("its address is not of the public web", 403)

    async def _require_polite(self, url: str) -> None:
        parts = urlsplit(url)
        origin = f"{parts.scheme}://{parts.netloc}"
        if origin not in self._robots:
            if len(self._robots) == _MAX_ORIGINS:
                del self._robots[next(iter(self._robots))]
            self._robots[origin] = await self._rules(origin)
        rules = self._robots[origin]
        if isinstance(rules, str):
            raise PageUnavailableError(f"the site's robots.txt: {rules}")
        try:
            robots = await asyncio.to_thread(read_robots, rules)
        except TooComplexError as error:
            raise PageUnavailableError(f"the site's robots.txt: {error}") from None
        if not robots.can_fetch(url, TOKEN):
            raise PageUnavailableError("the site's robots.txt asks not to fetch it", 403)

    async def _rules(self, origin: str) -> bytes | str:
        try:
            page = await self.get(f"{origin}/robots.txt", max_bytes=MAX_ROBOTS_BYTES, cut=True)
        except PageUnavailableError as error:
            # RFC 9309, 2.3.1: without the file everything is allowed; where the server fails to
            # give it, nothing.
            return b"" if error.lasts else str(error)
        return page.body

    async def _send(
        self, url: str, known: str, max_bytes: int, cookies: Cookies, cut: bool
    ) -> HttpReply:
        host = urlsplit(url).netloc
        if self._failures[host] >= MAX_FAILURES:
            raise PageUnavailableError(f"its host failed {MAX_FAILURES} requests in a row")
        loop = asyncio.get_running_loop()
        await asyncio.sleep(max(0.0, self._next_s.get(host, 0.0) - loop.time()))
        etag, mark, modified = known.partition("\n")
        validators = {"If-None-Match": etag, "If-Modified-Since": modified} if mark else {}
        headers = {"User-Agent": USER_AGENT} | {k: v for k, v in validators.items() if v}
        try:
            reply = await self._client.send(
                HttpRequest("GET", url, headers=headers, cookies=cookies, cut=cut),
                timeout_s=TIMEOUT_S, max_bytes=max_bytes,
            )  # fmt: skip
        except UpstreamTimeoutError as error:
            self._failures[host] += 1
            raise PageUnavailableError(str(error)) from None
        except UpstreamUnreachableError as error:
            if error.kind == "address":
                raise PageUnavailableError("its address is not of the public web", 403) from None
            self._failures[host] += error.kind in ("connection", "dns", "tls")
            raise PageUnavailableError(f"it cannot be reached: {error}") from None
        finally:
            self._next_s[host] = loop.time() + self._pause_s
        failed = reply.status in (429, 503)
        self._failures[host] = self._failures[host] + 1 if failed else 0
        if failed:
            pause_s = min(MAX_PAUSE_S, retry_after_s(reply.headers) or _DEFAULT_PAUSE_S)
            self._next_s[host] = loop.time() + max(self._pause_s, pause_s)
        return reply


def _page(url: str, reply: HttpReply, known: str) -> FetchedPage:
    if reply.status == 304 and known:
        raise SourceUnchangedError
    if reply.status != 200:
        raise PageUnavailableError(f"the site answers HTTP {reply.status}", reply.status)
    if reply.truncated:
        raise PageUnavailableError("the connection broke in the middle of it")
    content_type = reply.headers.get("content-type", "")
    etag, modified = reply.headers.get("etag", ""), reply.headers.get("last-modified", "")
    stamp = f"{etag}\n{modified}" if etag or modified else ""
    return FetchedPage(
        url, reply.body, content_type.partition(";")[0].strip().lower(), charset_of(content_type),
        stamp if len(stamp) <= _MAX_STAMP_CHARS else "",
    )  # fmt: skip


def _joined(url: str, location: str) -> str:
    try:
        return urljoin(url, location.strip())
    except ValueError:
        raise PageUnavailableError("it redirects to an invalid address") from None
