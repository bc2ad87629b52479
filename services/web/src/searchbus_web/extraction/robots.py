"""robots.txt (RFC 9309) by Protego: kept 24 hours; 4xx allows, 5xx and silence forbid a while."""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Callable
from urllib.parse import urlsplit

from protego import Protego

from searchbus_upstream import Transport, UpstreamTimeout, UpstreamUnreachable

__all__ = ["Robots"]

TOKEN = "searchbus"  # noqa: S105  (the product token of our User-Agent)
_FRESH_S = 24 * 3600.0
_REST_S = 300.0
_TIMEOUT_S = 5.0
_MAX_BYTES = 512 * 1024
_MAX_ORIGINS = 2000


class Robots:
    """Answers whether a page may be fetched."""

    def __init__(
        self, transport: Transport, user_agent: str, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._transport = transport
        self._user_agent = user_agent
        self._clock = clock
        self._known: OrderedDict[str, tuple[float, Protego | bool]] = OrderedDict()
        self._asking: dict[str, asyncio.Lock] = {}

    async def allows(self, url: str, left_s: float) -> bool:
        """Whether robots.txt of the page's origin allows it."""
        parts = urlsplit(url)
        origin = f"{parts.scheme}://{parts.netloc}"
        async with self._asking.setdefault(origin, asyncio.Lock()):
            known = self._known.get(origin)
            if known is None or known[0] < self._clock():
                known = self._known[origin] = await self._ask(origin, left_s)
                while len(self._known) > _MAX_ORIGINS:
                    dropped, _ = self._known.popitem(last=False)
                    self._asking.pop(dropped, None)
        rules = known[1]
        return rules if isinstance(rules, bool) else bool(rules.can_fetch(url, TOKEN))

    async def _ask(self, origin: str, left_s: float) -> tuple[float, Protego | bool]:
        now_s = self._clock()
        try:
            reply = await self._transport.send(
                "GET", f"{origin}/robots.txt", headers={"User-Agent": self._user_agent},
                timeout_s=min(_TIMEOUT_S, left_s), max_bytes=_MAX_BYTES,
            )  # fmt: skip
        except UpstreamTimeout:
            return now_s + _REST_S, False
        except UpstreamUnreachable:
            # The fetch of the page itself will say why.
            return now_s + _REST_S, True
        if reply.status >= 500:
            return now_s + _REST_S, False
        if reply.status != 200:
            return now_s + _FRESH_S, True
        return now_s + _FRESH_S, Protego.parse(reply.text)
