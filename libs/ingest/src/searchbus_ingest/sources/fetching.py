"""Fetches files and pages of one site: guarded, paced, limited, conditional.

Only public addresses are connected to, also behind redirects and links. An address that the
operator named as the source may be another one, with this port only; so may the hosts of the
allowlist SEARCHBUS_WEB_ROUTES, for a source that is of them.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
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
"""Requests in a row that a host may fail; each may take a minute, or three with its pause."""
MAX_LOST_S = 3600.0
"""What the requests and pauses of all hosts that failed may take of one sync: a feed may name a
thousand hosts that do not answer."""
MAX_DELAY_S = 30.0
"""The longest Crawl-delay that is kept, as of a crawl; a site that asks for more gets this."""
_MAX_HOSTS = 1000
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


@dataclass(slots=True)
class _Turn:
    """The lock is held for a request; the next one may begin at `next_s` of the loop's clock."""

    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    next_s: float = 0.0


class Turns:
    """When each host may be asked: one request at a time, of all sources of a process."""

    def __init__(self) -> None:
        self._hosts: dict[str, _Turn] = {}

    def of(self, host: str) -> _Turn:
        """That of a host."""
        if host not in self._hosts and len(self._hosts) >= _MAX_HOSTS:
            now_s = asyncio.get_running_loop().time()
            self._hosts = {
                name: turn
                for name, turn in self._hosts.items()
                if turn.next_s > now_s or turn.lock.locked()
            }
        return self._hosts.setdefault(host, _Turn())


class SiteClient:
    """Fetches what belongs to one source, one request at a time. For one sync.

    Args:
        source: its address, as the operator gave it.
        routes: allowlist of hosts, as of `GuardedBackend`.
        pause_s: between the beginnings of two requests to one host.
        turns: of hosts that other sources ask as well.
    """

    def __init__(
        self, source: str, routes: Mapping[str, str], pause_s: float, turns: Turns | None = None
    ) -> None:
        parts = urlsplit(source)
        host = (parts.hostname or "").rstrip(".")
        admitted = dict(routes)
        if not is_public_host(host):
            admitted[host] = f"{host}:{parts.port or (443 if parts.scheme == 'https' else 80)}"
        # Whoever writes a public source names no host of the allowlist.
        self._backend = GuardedBackend(routes=admitted).for_page(host)
        self._client = HttpClient("sync", backend=self._backend)
        self._pause_s = pause_s
        self._turns = turns or Turns()
        self._failures: Counter[str] = Counter()
        self._lost_s = 0.0
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
            delay_s = await self._polite_delay_s(url) if polite else 0.0
            reply = await self._send(url, known, max_bytes, cookies, cut, delay_s)
            location = reply.headers.get("location", "")
            if reply.status in _REDIRECTS and location:
                target = _joined(url, location)
                if (urlsplit(url).scheme, urlsplit(target).scheme) == ("https", "http"):
                    raise PageUnavailableError("it redirects from https to http")
                if self._is_admitted(target) and not self._is_admitted(url):
                    raise PageUnavailableError("it redirects out of the public web", 403)
                url = target
            else:
                return _page(url, reply, known)
        raise PageUnavailableError(f"it redirects more than {MAX_REDIRECTS} times")

    def _is_admitted(self, url: str) -> bool:
        """Whether the operator named its host."""
        try:
            host = urlsplit(url).hostname or ""
        except ValueError:
            return False
        return url.startswith(("http://", "https://")) and self._backend.allows_host(host)

    def _require_allowed(self, url: str) -> None:
        if not self._is_admitted(url) and not is_public_url(url):
            raise PageUnavailableError("its address is not of the public web", 403)

    async def _polite_delay_s(self, url: str) -> float:
        """The Crawl-delay; raises PageUnavailableError where robots.txt forbids the page."""
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
        delay_s = robots.crawl_delay(TOKEN) or 0.0
        return min(delay_s, MAX_DELAY_S) if delay_s > 0 else 0.0  # it may be `nan`

    async def _rules(self, origin: str) -> bytes | str:
        try:
            page = await self.get(f"{origin}/robots.txt", max_bytes=MAX_ROBOTS_BYTES, cut=True)
        except PageUnavailableError as error:
            # RFC 9309, 2.3.1: without the file everything is allowed; where the server fails to
            # give it, nothing.
            return b"" if error.lasts else str(error)
        return page.body

    async def _send(
        self, url: str, known: str, max_bytes: int, cookies: Cookies, cut: bool, delay_s: float
    ) -> HttpReply:
        host = urlsplit(url).hostname or ""
        turn, loop = self._turns.of(host), asyncio.get_running_loop()
        etag, mark, modified = known.partition("\n")
        validators = {"If-None-Match": etag, "If-Modified-Since": modified} if mark else {}
        headers = {"User-Agent": USER_AGENT} | {k: v for k, v in validators.items() if v}
        async with turn.lock:
            failures = self._failures[host]
            if failures >= MAX_FAILURES:
                raise PageUnavailableError(f"its host failed {MAX_FAILURES} requests in a row")
            if self._lost_s > MAX_LOST_S:
                minutes = f"{MAX_LOST_S / 60:.0f} minutes"
                raise PageUnavailableError(f"requests of this sync that failed took {minutes}")
            await asyncio.sleep(max(0.0, turn.next_s - loop.time()))
            begun_s = loop.time()
            turn.next_s = begun_s + max(self._pause_s, delay_s)
            try:
                reply = await self._client.send(
                    HttpRequest("GET", url, headers=headers, cookies=cookies, cut=cut),
                    timeout_s=TIMEOUT_S, max_bytes=max_bytes,
                )  # fmt: skip
                refused = reply.status in (429, 503)
                self._failures[host] = failures + 1 if refused else 0
                if refused:
                    asked_s = retry_after_s(reply.headers) or _DEFAULT_PAUSE_S
                    turn.next_s = max(turn.next_s, loop.time() + min(MAX_PAUSE_S, asked_s))
                return reply
            except UpstreamTimeoutError as error:
                self._failures[host] += 1
                raise PageUnavailableError(str(error)) from None
            except UpstreamUnreachableError as error:
                if error.kind == "address":
                    problem = "its address is not of the public web"
                    raise PageUnavailableError(problem, 403) from None
                self._failures[host] += error.kind in ("connection", "dns", "tls")
                raise PageUnavailableError(f"it cannot be reached: {error}") from None
            finally:
                if self._failures[host] > failures:
                    self._lost_s += max(turn.next_s, loop.time()) - begun_s


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
