"""Fetches one page: public addresses only, every redirect checked, limited in size and time.

robots.txt (RFC 9309) is cached, and parsed by Protego in a reader process. A response is kept for
24 hours; 4xx allows everything. 5xx and timeouts forbid everything for five minutes, and so does a
file that is encoded in another way than was asked for.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from typing import NamedTuple, Protocol
from urllib.parse import urljoin, urlsplit
from weakref import WeakValueDictionary

from cachetools import TLRUCache

from searchbus_pages import MAX_ROBOTS_BYTES, charset_of
from searchbus_upstream import (
    Cookies,
    GuardedBackend,
    HttpClient,
    HttpReply,
    HttpRequest,
    UpstreamClient,
    UpstreamTimeoutError,
    UpstreamUnreachableError,
    is_public_url,
)
from searchbus_upstream.guard import ALLOWED_PORTS

from .pool import ReaderPool
from .reading import PageBytes, PageReply, RobotsAnswer, RobotsQuestion

USER_AGENT = "searchbus/0.1 (+https://github.com/searchbus/searchbus; page extraction for agents)"
MAX_BYTES = 8 * 2**20
MAX_REDIRECTS = 5
MAX_URL_CHARS = 4096
_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_PER_HOST = 2
_MAX_VALIDATOR_CHARS = 200
_MAX_ROBOTS_CHARS = 1_000
_HEADERS = {
    "User-Agent": USER_AGENT,
    "Accept": "text/html,application/xhtml+xml,application/pdf;q=0.9,"
    "text/*;q=0.8,application/json;q=0.7",
    "Accept-Language": "en,*;q=0.5",
}
_READABLE = (
    "text/html", "application/xhtml+xml", "text/plain", "text/markdown", "text/csv", "text/xml",
    "application/xml", "application/json", "application/pdf", "application/rss+xml",
    "application/atom+xml", "application/ld+json",
)  # fmt: skip


TOKEN = "searchbus"  # noqa: S105  (the product token of our User-Agent)
_ROBOTS_FRESH_S = 24 * 3600.0
_ROBOTS_RETRY_S = 300.0
_ROBOTS_TIMEOUT_S = 5.0
_MAX_CACHED_BYTES = 32 * 2**20
_ENTRY_BYTES = 1000
"""Memory of an origin beside its file."""


class FetchError(Exception):
    """A page could not be fetched: a status (the README lists them), and one sentence."""

    def __init__(self, status: str, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.message = message


class Visit(Protocol):
    """What the requests for one page are part of, such as a crawl.

    Attributes:
        headers: sent besides those of every page.
    """

    headers: Mapping[str, str]

    async def begin(self) -> float:
        """Called before the first request; the seconds that are left. Raises as `before`."""

    async def before(self, url: str, left_s: float) -> None:
        """Called before each request, redirects included; raises FetchError to refuse it."""

    async def after(self, url: str, reply: HttpReply) -> None:
        """Called with each reply."""


class _Rules(NamedTuple):
    """The file of one origin; a bool allows or forbids every page."""

    rules: bytes | bool
    fresh_s: float


class Robots:
    """Answers whether a page may be fetched.

    Args:
        allows_host: whether the operator's allowlist, which the client has, names a host.
        clock: seconds, monotonic.
    """

    def __init__(
        self,
        client: UpstreamClient,
        reader: ReaderPool,
        *,
        allows_host: Callable[[str], bool] = lambda host: False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._client = client
        self._reader = reader
        self._allows_host = allows_host
        self._known: TLRUCache[str, _Rules] = TLRUCache(
            _MAX_CACHED_BYTES,
            ttu=lambda _, rules, now_s: now_s + rules.fresh_s,
            timer=clock,
            getsizeof=_size_bytes,
        )
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    async def allows(self, url: str, left_s: float, *, caller: str = "") -> bool:
        """Whether the robots.txt of the page's origin allows to fetch it; raises as `about`."""
        return (await self.about(url, left_s, caller=caller)).allowed

    async def about(self, url: str, left_s: float, *, caller: str = "") -> RobotsAnswer:
        """What the robots.txt of the page's origin says.

        Raises:
            FetchError: it did not come in the time that is left, which is short.
        """
        parts = urlsplit(url)
        origin = f"{parts.scheme}://{parts.netloc}"
        self._reader.prepare()
        async with self._locks.setdefault(origin, asyncio.Lock()):  # one request per origin
            known = self._known.get(origin)
            if known is None:
                known = self._known[origin] = await self._fetch(origin, left_s)
        if isinstance(known.rules, bool):
            return RobotsAnswer(known.rules)
        return await self._reader.obey(RobotsQuestion(known.rules, url, TOKEN), caller=caller)

    async def _fetch(self, origin: str, left_s: float) -> _Rules:
        url = f"{origin}/robots.txt"
        try:
            async with asyncio.timeout(min(_ROBOTS_TIMEOUT_S, left_s)):
                for _ in range(MAX_REDIRECTS + 1):
                    headers = {"User-Agent": USER_AGENT}
                    request = HttpRequest("GET", url, headers=headers, cut=True)
                    reply = await self._client.send(
                        request, timeout_s=_ROBOTS_TIMEOUT_S, max_bytes=MAX_ROBOTS_BYTES
                    )
                    location = reply.headers.get("location")
                    if reply.status not in _REDIRECTS or not location:
                        break
                    target = _redirect_target(url, location)
                    if not is_public_url(target) or leads_in(self._allows_host, url, target):
                        break
                    url = target
        except FetchError:
            return _Rules(True, _ROBOTS_FRESH_S)
        except (TimeoutError, UpstreamTimeoutError):
            if left_s < _ROBOTS_TIMEOUT_S:  # says nothing to others, who may have more time
                raise FetchError("timeout", "The deadline passed before it was fetched.") from None
            return _Rules(False, _ROBOTS_RETRY_S)
        except UpstreamUnreachableError as error:
            if error.status != 200 and 0 < error.status < 500:
                return _Rules(True, _ROBOTS_FRESH_S)
            # It is there, but not read; where nothing is, the fetch of the page itself reports why.
            return _Rules(error.kind != "encoding", _ROBOTS_RETRY_S)
        if reply.status >= 500 or reply.truncated:
            return _Rules(False, _ROBOTS_RETRY_S)
        if reply.status != 200:
            return _Rules(True, _ROBOTS_FRESH_S)
        return _Rules(reply.body, _ROBOTS_FRESH_S)


def leads_in(allows_host: Callable[[str], bool], url: str, target: str) -> bool:
    """Whether a step from one address to another leads from the public web to a host that only the
    operator's allowlist admits."""
    return allows_host(_host(target)) and not allows_host(_host(url))


def _host(url: str) -> str:
    return HttpRequest("GET", url).host


def _size_bytes(known: _Rules) -> int:
    return _ENTRY_BYTES + (0 if isinstance(known.rules, bool) else len(known.rules))


class Fetcher:
    """Fetches pages, at most two at a time from one host.

    Args:
        backend: opens the connections; its allowlist is exempt from the checks of the URL.
        robots: None: robots.txt is ignored.
    """

    def __init__(self, backend: GuardedBackend, *, robots: Robots | None = None) -> None:
        self._backend = backend
        self._client = HttpClient("pages", backend=backend)
        self._robots = robots
        # A host's semaphore exists while a request uses it or waits for it.
        self._hosts: WeakValueDictionary[str, asyncio.Semaphore] = WeakValueDictionary()

    async def fetch(
        self, url: str, *, timeout_s: float, caller: str = "", visit: Visit | None = None
    ) -> PageBytes:
        """Fetch a page; see `get`. Raises FetchError with a status of the README; `unchanged`,
        where a visit asked."""
        url, reply, moved = await self.get(url, timeout_s=timeout_s, caller=caller, visit=visit)
        if reply.status == 304 and visit is not None and visit.headers:
            raise FetchError("unchanged", "It has not changed.")
        return self._page(url, reply, moved)

    async def get(
        self, url: str, *, timeout_s: float, caller: str = "", visit: Visit | None = None
    ) -> tuple[str, HttpReply, bool]:
        """Send requests for a URL, following redirects.

        Returns the last URL, its reply, and whether there were redirects, all of them permanent.

        Args:
            caller: the stable id of whoever asks for the page.

        Raises:
            FetchError: there is no reply.
        """
        end_s = asyncio.get_running_loop().time() + timeout_s
        redirects: set[int] = set()
        cookies = Cookies()  # some pages redirect to themselves until theirs comes back
        for _ in range(MAX_REDIRECTS + 1):
            self._require_allowed(url)
            if visit is not None:
                await visit.before(url, end_s - asyncio.get_running_loop().time())
            headers = visit.headers if visit else {}
            reply = await self._send(url, end_s, caller, headers, cookies)
            if visit is not None:
                await visit.after(url, reply)
            location = reply.headers.get("location")
            if reply.status not in _REDIRECTS or not location:
                return url, reply, bool(redirects) and redirects <= {301, 308}
            redirects.add(reply.status)
            target = _redirect_target(url, location)
            self.check_step(url, target)
            url = target
        raise FetchError("too_many_redirects", f"It redirects more than {MAX_REDIRECTS} times.")

    async def close(self) -> None:
        """Close the connections."""
        await self._client.close()

    def is_operators(self, url: str) -> bool:
        """Whether the operator's allowlist names the host of a URL."""
        return self._backend.allows_host(_host(url))

    def check_step(self, url: str, target: str) -> None:
        """Raise FetchError where a page may not lead to an address, by a redirect or its scripts:
        from https to http, or to hosts of the allowlist, of which strangers would choose what is
        read."""
        self._require_allowed(target)
        if (urlsplit(url).scheme, urlsplit(target).scheme) == ("https", "http"):
            raise FetchError("blocked_by_policy", "It leads from https to http.")
        if leads_in(self._backend.allows_host, url, target):
            raise FetchError("blocked_by_policy", "It leads out of the public web.")

    def _require_allowed(self, url: str) -> None:
        if not 0 < len(url) <= MAX_URL_CHARS:
            raise FetchError("invalid_url", f"A URL has 1 to {MAX_URL_CHARS} characters.")
        try:
            parts = urlsplit(url)
            host, port = parts.hostname or "", parts.port
        except ValueError:
            raise FetchError("invalid_url", "This is not a valid URL.") from None
        if parts.scheme not in ("http", "https"):
            raise FetchError("blocked_by_policy", "Only http and https pages are fetched.")
        if self._backend.allows_host(host):
            return
        if not is_public_url(url):
            raise FetchError("blocked_by_policy", "The address is not of the public web.")
        if port is not None and port not in ALLOWED_PORTS:
            raise FetchError("blocked_by_policy", f"Port {port} is not allowed.")

    async def _send(
        self, url: str, end_s: float, caller: str, headers: Mapping[str, str],
        cookies: Cookies,
    ) -> HttpReply:  # fmt: skip
        host = urlsplit(url).hostname or ""
        async with self._hosts.setdefault(host, asyncio.Semaphore(_PER_HOST)):
            left_s = end_s - asyncio.get_running_loop().time()
            if left_s <= 0:
                raise FetchError("timeout", "The deadline passed before it was fetched.")
            if self._robots is not None and not await self._robots.allows(
                url, left_s, caller=caller
            ):
                raise FetchError("robots", "The site's robots.txt asks not to fetch it.")
            try:
                return await self._client.send(
                    HttpRequest("GET", url, headers={**_HEADERS, **headers}, cookies=cookies),
                    timeout_s=left_s,
                    max_bytes=MAX_BYTES,
                )
            except UpstreamTimeoutError:
                raise FetchError("timeout", "The site did not answer in time.") from None
            except UpstreamUnreachableError as error:
                raise self._unreachable(error) from None

    def _page(self, url: str, reply: HttpReply, moved: bool) -> PageBytes:
        if _is_challenge(reply):
            raise FetchError("challenge", "The site asks for proof that no bot fetches it.")
        if reply.status >= 400 or reply.status < 200 or reply.status == 304:
            raise FetchError(f"http_{reply.status}", f"The site answers HTTP {reply.status}.")
        if reply.truncated:
            raise FetchError("unreachable", "The connection broke in the middle of it.")
        content_type = reply.headers.get("content-type", "")
        media_type = _media_type(content_type, reply.body)
        if media_type not in _READABLE and not media_type.endswith(("+json", "+xml")):
            raise FetchError(
                "unsupported_type", f"It is {media_type or 'of unknown type'}, which holds no text."
            )
        etag, modified, robots = (
            reply.headers.get(name, "") for name in ("etag", "last-modified", "x-robots-tag")
        )
        said = PageReply(
            url, moved, etag[:_MAX_VALIDATOR_CHARS], modified[:_MAX_VALIDATOR_CHARS],
            robots[:_MAX_ROBOTS_CHARS],
        )  # fmt: skip
        return PageBytes(url, reply.body, media_type, charset_of(content_type), said)

    def _unreachable(self, error: UpstreamUnreachableError) -> FetchError:
        problems = {
            "address": ("blocked_by_policy", "The address is not of the public web."),
            "dns": ("dns", "The host has no address."),
            "tls": ("tls", "The site's certificate or TLS is not valid."),
            "too_large": ("too_large", f"It is larger than {MAX_BYTES // 2**20} MiB."),
        }
        return FetchError(
            *problems.get(error.kind, ("unreachable", f"The site cannot be reached ({error})."))
        )


def _redirect_target(url: str, location: str) -> str:
    try:
        return urljoin(url, location.strip())
    except ValueError:
        raise FetchError("invalid_url", "It redirects to an invalid URL.") from None


def _is_challenge(reply: HttpReply) -> bool:
    if reply.headers.get("cf-mitigated") == "challenge":
        return True
    if reply.status not in (403, 429, 503):
        return False
    head = reply.body[:20_000]
    return b"Just a moment..." in head or b"/cdn-cgi/challenge-platform/" in head


def _media_type(content_type: str, body: bytes) -> str:
    """The declared type, corrected where the first bytes are unambiguous."""
    declared = content_type.partition(";")[0].strip().lower()
    if body[:5] == b"%PDF-":
        return "application/pdf"
    if not declared or declared == "application/octet-stream":
        head = body[:1024].lstrip().lower()
        if head.startswith((b"<!doctype html", b"<html")):
            return "text/html"
    return declared
