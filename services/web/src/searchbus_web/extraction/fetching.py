"""Fetching one page: public addresses only, every hop checked, capped in size and time."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from urllib.parse import urljoin, urlsplit

from searchbus_upstream import (
    GuardedBackend,
    HttpTransport,
    Reply,
    UpstreamTimeout,
    UpstreamUnreachable,
    is_public_url,
)
from searchbus_upstream.guard import ALLOWED_PORTS

from .robots import Robots

__all__ = ["USER_AGENT", "Fetched", "Fetcher", "NotFetched"]

USER_AGENT = "searchbus/0.1 (+https://github.com/searchbus/searchbus; page extraction for agents)"
MAX_BYTES = 8 * 2**20
MAX_REDIRECTS = 5
_PER_HOST = 2
_READABLE = (
    "text/html", "application/xhtml+xml", "text/plain", "text/markdown", "text/csv", "text/xml",
    "application/xml", "application/json", "application/pdf", "application/rss+xml",
    "application/atom+xml", "application/ld+json",
)  # fmt: skip


class NotFetched(Exception):
    """Why there is no page: a status for the caller and a sentence."""

    def __init__(self, status: str, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.message = message


@dataclass(frozen=True, slots=True)
class Fetched:
    """A page as it came: where it was in the end, its media type and charset by the header."""

    url: str
    body: bytes
    media_type: str
    charset: str | None
    truncated: bool = False


class Fetcher:
    """Fetches pages.

    Args:
        robots: None: robots.txt is not asked.
    """

    def __init__(
        self,
        backend: GuardedBackend,
        *,
        robots: Robots | None = None,
        max_bytes: int = MAX_BYTES,
    ) -> None:
        self._backend = backend
        self._transport = HttpTransport("pages", backend=backend)
        self._robots = robots
        self._max_bytes = max_bytes
        self._hosts: dict[str, asyncio.Semaphore] = {}

    async def fetch(self, url: str, *, timeout_s: float) -> Fetched:
        """Follow redirects to a page; raises NotFetched."""
        loop = asyncio.get_running_loop()
        end_s = loop.time() + timeout_s
        here = url
        for _ in range(MAX_REDIRECTS + 1):
            self._require_allowed(here)
            reply = await self._send(here, end_s - loop.time())
            location = reply.headers.get("location")
            if reply.status not in (301, 302, 303, 307, 308) or not location:
                return self._page(here, reply)
            there = urljoin(here, location.strip())
            if here.startswith("https:") and there.startswith("http:"):
                raise NotFetched("blocked_by_policy", "It redirects from https to http.")
            here = there
        raise NotFetched("too_many_redirects", f"It redirects more than {MAX_REDIRECTS} times.")

    async def close(self) -> None:
        """Close the connections."""
        await self._transport.close()

    def _require_allowed(self, url: str) -> None:
        try:
            parts = urlsplit(url)
            host, port = parts.hostname or "", parts.port
        except ValueError:
            raise NotFetched("invalid_url", "This is no URL.") from None
        if self._backend.vouches_for(host) and parts.scheme in ("http", "https"):
            return
        if parts.scheme not in ("http", "https"):
            raise NotFetched("blocked_by_policy", "Only http and https pages are fetched.")
        if not is_public_url(url):
            raise NotFetched("blocked_by_policy", "The address is not of the public web.")
        if port is not None and port not in ALLOWED_PORTS:
            raise NotFetched("blocked_by_policy", f"Port {port} is not allowed.")

    async def _send(self, url: str, left_s: float) -> Reply:
        host = urlsplit(url).hostname or ""
        # Two at a time of one host, and no table that grows for ever.
        if len(self._hosts) > 10_000:
            self._hosts.clear()
        async with self._hosts.setdefault(host, asyncio.Semaphore(_PER_HOST)):
            if left_s <= 0:
                raise NotFetched("timeout", "The time was over before it was fetched.")
            if self._robots is not None and not await self._robots.allows(url, left_s):
                raise NotFetched("robots", "The site's robots.txt asks not to fetch it.")
            try:
                return await self._transport.send(
                    "GET", url,
                    headers={
                        "User-Agent": USER_AGENT,
                        "Accept": "text/html,application/xhtml+xml,application/pdf;q=0.9,"
                        "text/*;q=0.8,application/json;q=0.7",
                        "Accept-Language": "en,*;q=0.5",
                    },
                    timeout_s=left_s, max_bytes=self._max_bytes,
                )  # fmt: skip
            except UpstreamTimeout:
                raise NotFetched("timeout", "The site did not answer in time.") from None
            except UpstreamUnreachable as error:
                raise _unreachable(error) from None

    def _page(self, url: str, reply: Reply) -> Fetched:
        if reply.headers.get("cf-mitigated") == "challenge" or _is_challenge(reply):
            raise NotFetched("challenge", "The site asks for proof that no bot fetches it.")
        if reply.status >= 400 or reply.status < 200:
            raise NotFetched(f"http_{reply.status}", f"The site answers HTTP {reply.status}.")
        declared = reply.headers.get("content-type", "")
        media_type = declared.partition(";")[0].strip().lower()
        if reply.body[:5] == b"%PDF-":
            media_type = "application/pdf"
        elif not media_type or media_type == "application/octet-stream":
            looks_html = (
                reply.body[:1024].lstrip().lower().startswith((b"<!doctype html", b"<html"))
            )
            media_type = "text/html" if looks_html else media_type
        if media_type not in _READABLE and not media_type.endswith(("+json", "+xml")):
            raise NotFetched(
                "unsupported_type", f"It is {media_type or 'of unknown type'}, which holds no text."
            )
        charset = next(
            (
                part.partition("=")[2].strip(" \"'")
                for part in declared.split(";")[1:]
                if part.strip().lower().startswith("charset=")
            ),
            None,
        )
        return Fetched(url, reply.body, media_type, charset, reply.truncated)


def _is_challenge(reply: Reply) -> bool:
    if reply.status not in (403, 429, 503):
        return False
    head = reply.body[:20_000]
    return b"Just a moment..." in head or b"/cdn-cgi/challenge-platform/" in head


def _unreachable(error: UpstreamUnreachable) -> NotFetched:
    if error.kind == "address":
        return NotFetched("blocked_by_policy", "The address is not of the public web.")
    if error.kind == "dns":
        return NotFetched("dns", "The host has no address.")
    if error.kind == "tls":
        return NotFetched("tls", "The site's certificate or TLS is not valid.")
    if error.kind == "too_large":
        return NotFetched("too_large", f"It is larger than {MAX_BYTES // 2**20} MiB.")
    return NotFetched("unreachable", f"The site cannot be reached ({error}).")
