"""How a crawl asks a host for pages: as robots.txt allows, at one pace over all workers.

The pace of a host is one number in the key-value store, which every worker advances (SharedPace).
While the store is away, each worker counts for itself.
"""

from __future__ import annotations

import asyncio
import hashlib
import math
from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, field
from urllib.parse import urlsplit

from cachetools import LRUCache

from searchbus_bus import KeyValue
from searchbus_contracts import Fault
from searchbus_upstream import HttpReply, SharedPace, retry_after_s

from ..extraction.fetching import FetchError, Robots
from .scope import SiteScope

BUCKET, BUCKET_TTL_S, BUCKET_BYTES = "web_hosts", 600.0, 4 * 2**20
MAX_DELAY_S = 30.0
"""The longest Crawl-delay that is kept; a site that asks for more gets this."""
MAX_PAUSE_S = 120.0
_PAUSE_S = 30.0
"""After a refusal without Retry-After."""
REFUSALS = ("challenge", "http_429", "http_503")
"""Statuses by which a site asks for fewer requests."""
LATER = (*REFUSALS, "busy", "timeout")
"""Statuses after which another call may get the page."""
_MAX_HOSTS = 1_000


class Politeness:
    """Waits for the turn of a host: `delay_s` at least between two requests."""

    def __init__(self, robots: Robots, hosts: KeyValue | None, *, delay_s: float) -> None:
        self.robots = robots
        self._hosts = hosts
        self._delay_s = delay_s
        self._paces: LRUCache[tuple[str, float], SharedPace] = LRUCache(_MAX_HOSTS)

    async def turn(self, url: str, left_s: float, *, caller: str) -> None:
        """Wait until an address may be fetched; raises FetchError: robots, timeout, or busy, where
        the turn comes later than `left_s`."""
        rules = await self.robots.about(url, left_s, caller=caller)
        if not rules.allowed:
            raise FetchError("robots", "The site's robots.txt asks not to fetch it.")
        pace = self._pace(url, max(self._delay_s, min(rules.delay_s, MAX_DELAY_S)))
        try:
            await pace.slot(left_s)
        except Fault as fault:
            wait_s = math.ceil((fault.failure.retry_after_ms or 0) / 1000)
            message = f"The next turn of its host is in {wait_s} s: others fetch from it too."
            raise FetchError("busy", message) from None

    async def refused(self, url: str, reply: HttpReply) -> None:
        """Let every worker pause where the host asks for fewer requests."""
        if f"http_{reply.status}" in REFUSALS:
            pause_s = min(retry_after_s(reply.headers) or _PAUSE_S, MAX_PAUSE_S)
            await self._pace(url, self._delay_s).pause(pause_s)

    def _pace(self, url: str, delay_s: float) -> SharedPace:
        host = (urlsplit(url).hostname or "").lower()
        pace = self._paces.get((host, delay_s))
        if pace is None:
            key = hashlib.sha256(host.encode("utf-8", "replace")).hexdigest()[:40]
            rate_per_s = 1 / delay_s if delay_s > 0 else 0.0
            pace = SharedPace(self._hosts, key, rate_per_s=rate_per_s, name="sites")
            self._paces[host, delay_s] = pace
        return pace


@dataclass(eq=False)
class SiteVisit:
    """The requests for one page or sitemap; see `Visit`.

    Args:
        end_s: of the loop's clock.
        headers: make the request of a page conditional.
    """

    politeness: Politeness
    scope: SiteScope
    url: str
    _: KW_ONLY
    caller: str
    end_s: float
    headers: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._host = urlsplit(self.url).hostname

    async def begin(self) -> float:
        """Wait for the turn of the host."""
        await self.politeness.turn(self.url, self._left_s, caller=self.caller)
        return max(0.001, self._left_s)

    @property
    def _left_s(self) -> float:
        return self.end_s - asyncio.get_running_loop().time()

    async def before(self, url: str, left_s: float) -> None:
        """Refuse other sites; a redirect to another host of the site waits for its turn."""
        if url == self.url:
            return
        if not self.scope.has(url):
            raise FetchError("other_site", "It redirects to another site.")
        if urlsplit(url).hostname != self._host:
            await self.politeness.turn(url, left_s, caller=self.caller)
        elif not await self.politeness.robots.allows(url, left_s, caller=self.caller):
            raise FetchError("robots", "The site's robots.txt asks not to fetch it.")

    async def after(self, url: str, reply: HttpReply) -> None:
        """Pause where the host asks for that."""
        await self.politeness.refused(url, reply)
