"""Limits of an HTTP server's connections, which hold before an application sees a request.

uvicorn waits without end for the head and the body of a request, and sets a timer after each
response. One watch a second looks at all connections: a request costs nothing.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from .protocol import Connection

log = logging.getLogger("searchbus.http")


@dataclass(frozen=True, slots=True)
class ConnectionLimits:
    """The limits of one server.

    Args:
        most: connections at once; further ones get HTTP 503.
        most_per_address: of one client address; behind a proxy that is the proxy's.
        head_timeout_s: until the head of a request is complete, also on a new connection.
        body_timeout_s: until its body is complete, and for a client that does not read.
        idle_timeout_s: until the next request of a connection.
    """

    most: int = 4096
    most_per_address: int = 1024
    head_timeout_s: float = 10.0
    body_timeout_s: float = 60.0
    idle_timeout_s: float = 5.0


class ConnectionWatch:
    """Counts the connections of one server and closes those that are too slow.

    Args:
        interval_s: between two looks at all connections.
    """

    def __init__(self, limits: ConnectionLimits, *, interval_s: float = 1.0) -> None:
        self._limits = limits
        self._interval_s = interval_s
        self._open: dict[Connection, str] = {}
        self._by_address: Counter[str] = Counter()
        self._refused = 0

    def protocol(self) -> Callable[..., asyncio.Protocol]:
        """What uvicorn makes of each connection (`Config.http`)."""

        def make(**options: Any) -> asyncio.Protocol:
            return Connection(self, **options)

        return make

    async def run(self) -> None:
        """Close slow connections until it is cancelled."""
        while True:
            await asyncio.sleep(self._interval_s)
            self.look()

    def look(self) -> None:
        """Look at every connection once."""
        now_s = asyncio.get_running_loop().time()
        closed = sum([self._close_if_slow(found, now_s) for found in list(self._open)])
        if closed or self._refused:
            log.warning(
                "%d slow connections closed, %d beyond the limit refused", closed, self._refused
            )
            self._refused = 0

    def admit(self, connection: Connection, address: str) -> bool:
        """Count a new connection; False where it is one too many."""
        limits = self._limits
        if len(self._open) >= limits.most or self._by_address[address] >= limits.most_per_address:
            self._refused += 1
            return False
        self._open[connection] = address
        self._by_address[address] += 1
        return True

    def release(self, connection: Connection) -> None:
        """A connection has ended."""
        address = self._open.pop(connection, None)
        if address is not None:
            self._by_address[address] -= 1
            if not self._by_address[address]:
                del self._by_address[address]

    def _close_if_slow(self, connection: Connection, now_s: float) -> bool:
        waits_for = connection.waits_for()
        if waits_for is None:
            connection.waiting = None
            return False
        if connection.waiting is None or connection.waiting[0] != waits_for:
            connection.waiting = (waits_for, now_s)
            return False
        limits = self._limits
        most_s = {
            "head": limits.head_timeout_s,
            "request": limits.idle_timeout_s,
        }.get(waits_for[0], limits.body_timeout_s)
        if now_s - connection.waiting[1] < most_s:
            return False
        connection.give_up(waits_for[0])
        return waits_for[0] != "request"
