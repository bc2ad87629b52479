"""Limits of an HTTP server's connections, which hold before an application sees a request.

uvicorn waits without end for the head and the body of a request. One watch a second looks at all
connections: a request costs nothing.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

__all__ = ["ConnectionLimits", "ConnectionWatch"]

log = logging.getLogger("searchbus.http")
_REFUSED = b"HTTP/1.1 %b\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"


@dataclass(frozen=True, slots=True)
class ConnectionLimits:
    """The limits of one server.

    Args:
        most: connections at once; further ones get HTTP 503.
        most_per_address: of one client address; behind a proxy that is the proxy's.
        head_timeout_s: until the head of a request is complete, also on a new connection.
        body_timeout_s: until its body is complete, and for a client that does not read.
    """

    most: int = 4096
    most_per_address: int = 1024
    head_timeout_s: float = 10.0
    body_timeout_s: float = 60.0


class ConnectionWatch:
    """Counts the connections of one server and closes those that are too slow.

    Args:
        interval_s: between two looks at all connections.
    """

    def __init__(self, limits: ConnectionLimits, *, interval_s: float = 1.0) -> None:
        self._limits = limits
        self._interval_s = interval_s
        self._open: dict[_Connection, str] = {}
        self._by_address: Counter[str] = Counter()
        self._refused = 0

    def protocol(self) -> Callable[..., asyncio.Protocol]:
        """What uvicorn makes of each connection (`Config.http`)."""

        def make(**options: Any) -> asyncio.Protocol:
            return _Connection(self, **options)

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

    def admit(self, connection: _Connection, address: str) -> bool:
        """Count a new connection; False where it is one too many."""
        limits = self._limits
        if len(self._open) >= limits.most or self._by_address[address] >= limits.most_per_address:
            self._refused += 1
            return False
        self._open[connection] = address
        self._by_address[address] += 1
        return True

    def release(self, connection: _Connection) -> None:
        """A connection has ended."""
        address = self._open.pop(connection, None)
        if address is not None:
            self._by_address[address] -= 1
            if not self._by_address[address]:
                del self._by_address[address]

    def _close_if_slow(self, connection: _Connection, now_s: float) -> bool:
        waits_for = connection.waits_for()
        if waits_for is None:
            connection.waiting = None
            return False
        if connection.waiting is None or connection.waiting[0] != waits_for:
            connection.waiting = (waits_for, now_s)
            return False
        limits = self._limits
        most_s = limits.head_timeout_s if waits_for[0] == "head" else limits.body_timeout_s
        if now_s - connection.waiting[1] < most_s:
            return False
        connection.give_up(waits_for[0])
        return True


class _Connection(HttpToolsProtocol):
    """uvicorn's protocol, counted by a watch.

    Args:
        waiting: what the watch saw it wait for, and since when (the loop's clock).
    """

    def __init__(self, watch: ConnectionWatch, **options: Any) -> None:
        super().__init__(**options)
        self._watch = watch
        self.waiting: tuple[tuple[str, Any], float] | None = None

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        if not self._watch.admit(self, self.client[0] if self.client else ""):
            transport.write(_REFUSED % b"503 Service Unavailable")
            transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        self._watch.release(self)
        super().connection_lost(exc)

    def waits_for(self) -> tuple[str, Any] | None:
        """What the client must do next, and for which request; None where it is our turn."""
        cycle = self.cycle
        if self.transport.is_closing() or self.flow.write_paused:
            return "read", cycle
        if cycle is not None and not cycle.response_complete:
            return ("body", cycle) if cycle.more_body else None
        return ("head", cycle) if self.timeout_keep_alive_task is None else None

    def give_up(self, waited_for: str) -> None:
        """Close a connection whose client was too slow."""
        if waited_for == "read":
            self.transport.abort()
            return
        if self.cycle is None or not self.cycle.response_started or self.cycle.response_complete:
            self.transport.write(_REFUSED % b"408 Request Timeout")
        self.transport.close()
