"""One connection for each caller, to a server that keeps state in its session.

    callers = Callers(server, connect, leases)
    found = await callers.of(call.actor.subject)    # a Holder: another worker has the session

A connection is opened by its caller's first call, by the worker that gets the lease (leases.py). It
is closed when the caller has not used it for the server's idle time, when others need its place, or
when another worker holds the lease.
"""

from __future__ import annotations

import asyncio
import functools
import logging
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from typing import Any

from searchbus_contracts import ErrorCode, Fault

from ..declare.servers import Server
from ..metrics import count_session
from ..upstream.upstream import Upstream
from .leases import Holder, Lease, Leases, lease_key

__all__ = ["Callers"]

log = logging.getLogger("searchbus.attach")


@dataclass(slots=True)
class _Session:
    upstream: Upstream
    lease: Lease


class Callers:
    """The connections of one server by caller.

    Args:
        connect: makes the connection of a caller; its first request starts it.
        check: raises Fault for a caller who cannot use the server: such a one takes nobody's place.
    """

    def __init__(
        self,
        server: Server,
        connect: Callable[[str], Upstream],
        leases: Leases,
        check: Callable[[str], Awaitable[None]] | None = None,
    ) -> None:
        self._server = server
        self._connect = connect
        self._leases = leases
        self._check = check
        # The one that was used last is the last.
        self._sessions: dict[str, _Session] = {}
        self._ending: set[asyncio.Task[None]] = set()
        self._stopped = False

    def __len__(self) -> int:
        return len(self._sessions)

    @property
    def in_flight(self) -> int:
        """Calls that run or wait."""
        return sum(session.upstream.in_flight for session in self._sessions.values())

    async def of(self, caller: str) -> Upstream | Holder:
        """The caller's connection, or the worker that has it.

        Raises:
            Fault: overloaded where `max_callers` others have calls that run; unavailable after
                `stop`; or what `check` raises.
        """
        session = self._sessions.get(caller)
        if session is not None and self._leases.is_valid(session.lease):
            return self._use(caller, session.lease)
        if session is None and self._check is not None:
            await self._check(caller)
        lease = await self._leases.take(
            lease_key(self._server.name, caller), functools.partial(self._lost, caller)
        )
        return lease if isinstance(lease, Holder) else await self._opened(caller, lease)

    async def take_over(self, caller: str, holder: Holder) -> None:
        """Take the session of a worker that has left the bus, unless another one was first."""
        on_lost = functools.partial(self._lost, caller)
        try:
            lease = await self._leases.take_over(
                lease_key(self._server.name, caller), holder, on_lost
            )
        except Fault:
            return  # the next look at the store says who has it
        if lease is not None:
            count_session(self._server.name, "taken_over")
            log.warning(
                "%s: the worker %s with the session of a caller is gone; its state is lost",
                self._server.name, holder.instance,
            )  # fmt: skip
            await self._opened(caller, lease)

    def end_unused(self) -> None:
        """Close what was not used for the idle time."""
        if self._server.idle_s:
            for caller, session in list(self._sessions.items()):
                if session.upstream.unused_s > self._server.idle_s:
                    self._end(caller)

    def try_now(self) -> None:
        """End the pauses of connections that failed."""
        for session in self._sessions.values():
            session.upstream.try_now()

    async def stop(self) -> None:
        """Close all; further calls fail."""
        self._stopped = True
        for caller in list(self._sessions):
            self._end(caller)
        await asyncio.gather(*self._ending)

    async def _opened(self, caller: str, lease: Lease) -> Upstream:
        try:
            return self._use(caller, lease)
        except Fault:
            await self._leases.release(lease)
            raise

    def _use(self, caller: str, lease: Lease) -> Upstream:
        session = self._sessions.pop(caller, None)
        if session is None:
            if self._stopped:
                # Its declaration changed, and the bus does not know the new one yet.
                raise Fault(ErrorCode.UNAVAILABLE, f"{self._server.name} is restarted. Try again.")
            if len(self._sessions) >= self._server.max_callers:
                self._end_one()
            session = _Session(self._connect(caller), lease)
            if not self._leases.is_valid(lease):
                count_session(self._server.name, "without_lease")
                log.warning(
                    "%s: the session of a caller is opened without a lease, because the key-value "
                    "store is unreachable; another worker may open one too",
                    self._server.name,
                )
        session.lease = lease
        self._sessions[caller] = session
        return session.upstream

    def _end_one(self) -> None:
        for caller, session in self._sessions.items():
            if not session.upstream.in_flight:
                self._end(caller)
                return
        raise Fault(
            ErrorCode.OVERLOADED,
            f"{self._server.name} has connections for {self._server.max_callers} callers, and all "
            "of them are in use. Try again shortly.",
        )

    def _end(self, caller: str) -> None:
        self._in_background(self._close(self._sessions.pop(caller)))

    async def _close(self, session: _Session) -> None:
        await session.upstream.stop()
        await self._leases.release(session.lease)

    def _lost(self, caller: str, lease: Lease) -> None:
        """Close the connection of a caller whose session another worker has now."""
        session = self._sessions.get(caller)
        if session is None or session.lease is not lease:
            return
        count_session(self._server.name, "lost")
        log.warning(
            "%s: another worker has the session of a caller now; the one here is closed",
            self._server.name,
        )
        del self._sessions[caller]
        self._in_background(session.upstream.stop())

    def _in_background(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._ending.add(task)
        task.add_done_callback(self._ending.discard)
