"""One connection for each caller, to a server that keeps state in its session.

    callers = Callers(server, connect)
    raw = await callers.of(call.actor.subject).call(call, name, arguments)

A connection is opened by its caller's first call. It is closed when the caller has not used it for
the server's idle time, or when others need its place.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from searchbus_contracts import ErrorCode, Fault

from .servers import Server
from .upstream import Upstream

__all__ = ["Callers"]


class Callers:
    """The connections of one server by caller.

    Args:
        connect: makes the connection of a caller; its first request starts it.
    """

    def __init__(self, server: Server, connect: Callable[[str], Upstream]) -> None:
        self._server = server
        self._connect = connect
        # The one that was used last is the last.
        self._upstreams: dict[str, Upstream] = {}
        self._ending: set[asyncio.Task[None]] = set()

    def __len__(self) -> int:
        return len(self._upstreams)

    @property
    def in_flight(self) -> int:
        """Calls that run or wait."""
        return sum(upstream.in_flight for upstream in self._upstreams.values())

    def of(self, caller: str) -> Upstream:
        """The caller's connection.

        Raises:
            Fault: overloaded where `max_callers` others have calls that run.
        """
        found = self._upstreams.pop(caller, None)
        if found is None:
            if len(self._upstreams) >= self._server.max_callers:
                self._end_one()
            found = self._connect(caller)
        self._upstreams[caller] = found
        return found

    def end_unused(self) -> None:
        """Close what was not used for the idle time."""
        if self._server.idle_s:
            for caller, upstream in list(self._upstreams.items()):
                if upstream.unused_s > self._server.idle_s:
                    self._end(caller)

    def try_now(self) -> None:
        """End the pauses of connections that failed."""
        for upstream in self._upstreams.values():
            upstream.try_now()

    async def stop(self) -> None:
        """Close all."""
        for caller in list(self._upstreams):
            self._end(caller)
        await asyncio.gather(*self._ending)

    def _end_one(self) -> None:
        for caller, upstream in self._upstreams.items():
            if not upstream.in_flight:
                self._end(caller)
                return
        raise Fault(
            ErrorCode.OVERLOADED,
            f"{self._server.name} has connections for {self._server.max_callers} callers, and all "
            "of them are in use.",
        )

    def _end(self, caller: str) -> None:
        task = asyncio.get_running_loop().create_task(self._upstreams.pop(caller).stop())
        self._ending.add(task)
        task.add_done_callback(self._ending.discard)
