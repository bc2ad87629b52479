"""robots.txt (RFC 9309), cached, and parsed by Protego in a reader process.

A response is kept for 24 hours; 4xx allows everything. 5xx and timeouts forbid everything for five
minutes.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import NamedTuple, Protocol
from urllib.parse import urlsplit
from weakref import WeakValueDictionary

from cachetools import TLRUCache

from searchbus_upstream import Request, UpstreamClient, UpstreamTimeout, UpstreamUnreachable

from .reading import RobotsQuestion

__all__ = ["Robots"]

TOKEN = "searchbus"  # noqa: S105  (the product token of our User-Agent)
_FRESH_S = 24 * 3600.0
_RETRY_S = 300.0
_TIMEOUT_S = 5.0
_MAX_BYTES = 512 * 1024
_MAX_CACHED_BYTES = 32 * 2**20
_ENTRY_BYTES = 1000
"""Of an origin beside its file."""


class Reader(Protocol):
    """Reads the file, which may be chosen to take long; see `ReaderPool`."""

    async def allows(self, question: RobotsQuestion, *, caller: str = "") -> bool:
        """Whether the file allows a URL."""


class _Rules(NamedTuple):
    """The file of one origin; a bool allows or forbids every page."""

    rules: bytes | bool
    fresh_s: float


class Robots:
    """Answers whether a page may be fetched.

    Args:
        clock: seconds, monotonic.
    """

    def __init__(
        self,
        client: UpstreamClient,
        reader: Reader,
        user_agent: str,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._client = client
        self._reader = reader
        self._user_agent = user_agent
        self._known: TLRUCache[str, _Rules] = TLRUCache(
            _MAX_CACHED_BYTES,
            ttu=lambda _, rules, now_s: now_s + rules.fresh_s,
            timer=clock,
            getsizeof=_size_bytes,
        )
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    async def allows(self, url: str, left_s: float, *, caller: str = "") -> bool:
        """Whether the robots.txt of the page's origin allows to fetch it."""
        parts = urlsplit(url)
        origin = f"{parts.scheme}://{parts.netloc}"
        async with self._locks.setdefault(origin, asyncio.Lock()):  # one request per origin
            known = self._known.get(origin)
            if known is None:
                known = self._known[origin] = await self._fetch(origin, left_s)
        if isinstance(known.rules, bool):
            return known.rules
        return await self._reader.allows(RobotsQuestion(known.rules, url, TOKEN), caller=caller)

    async def _fetch(self, origin: str, left_s: float) -> _Rules:
        request = Request("GET", f"{origin}/robots.txt", headers={"User-Agent": self._user_agent})
        try:
            reply = await self._client.send(
                request, timeout_s=min(_TIMEOUT_S, left_s), max_bytes=_MAX_BYTES
            )
        except UpstreamTimeout:
            return _Rules(False, _RETRY_S)
        except UpstreamUnreachable:
            return _Rules(True, _RETRY_S)  # the fetch of the page itself reports why
        if reply.status >= 500:
            return _Rules(False, _RETRY_S)
        if reply.status != 200:
            return _Rules(True, _FRESH_S)
        return _Rules(reply.body, _FRESH_S)


def _size_bytes(known: _Rules) -> int:
    return _ENTRY_BYTES + (0 if isinstance(known.rules, bool) else len(known.rules))
