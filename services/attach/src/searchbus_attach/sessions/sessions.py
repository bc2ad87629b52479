"""One session for each caller of a server that keeps state, wherever it is.

    sessions = Sessions(server, connect, leases, bus)
    reply = await sessions.request(call, wanted)

A session is opened by its caller's first call, by the worker that gets the lease (leases.py). It is
closed when the caller has not used it for the server's idle time, when others need its place, or
when another worker holds the lease. A call that comes to another worker is sent on over the bus,
which passes the caller on with its signature, once: nobody can send it any further.
"""

from __future__ import annotations

import asyncio
import functools
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeVar

from searchbus_bus import Bus, Call, InstanceGoneError, Request
from searchbus_bus.client.fleet import State
from searchbus_bus.tasks import Background
from searchbus_contracts import Actor, ErrorCode, Fault, ToolEvent

from ..declare.servers import Server
from ..metrics import MeasuredCall, count
from ..upstream.session import ServerRequest
from ..upstream.upstream import Upstream
from .leases import Holder, Leases, SessionLease, lease_key

T = TypeVar("T")
log = logging.getLogger("searchbus.attach")

_ROUNDS = 3
"""Rounds of looking for the session; more only where workers end one after the other."""
_LOOK_AGAIN_S = 0.2
"""While a worker that stops ends its last calls."""
_MARGIN_S = 0.1
"""Left of the caller's time: it gets this worker's failure where the other one is silent."""
_LEAST_S = 0.001
_NOBODY = Actor()


@dataclass(slots=True)
class _Session:
    upstream: Upstream
    lease: SessionLease


@dataclass(eq=False)
class Sessions:
    """The sessions of one server's callers.

    Args:
        connect: makes the connection of a caller; its first request starts it.
        bus: sends calls on to the workers that have the sessions of others.
        check: raises Fault for a caller who cannot use the server: such a one takes nobody's place.
    """

    server: Server
    connect: Callable[[str], Upstream]
    leases: Leases
    bus: Bus
    check: Callable[[str], Awaitable[None]] | None = None

    def __post_init__(self) -> None:
        # The one that was used last is the last.
        self._sessions: dict[str, _Session] = {}
        self._ending = Background()
        self._stopped = False

    @property
    def in_flight(self) -> int:
        """Calls that run or wait."""
        return sum(session.upstream.in_flight for session in self._sessions.values())

    async def request(self, call: Call, wanted: ServerRequest[T]) -> T:
        """Send a request by the session of its caller, here or at another worker; its reply. Raises
        Fault, unavailable where the session moves."""
        caller = call.actor.subject
        rounds = 0
        while rounds < _ROUNDS:
            with MeasuredCall(self.server.name, failures_only=True):
                place = await self.of(caller)
            if isinstance(place, Upstream):
                return await place.request(call, wanted)
            if call.instance_only:
                break  # it was sent on once: two workers could send it to each other for ever
            try:
                return await send_on(self.bus, call, wanted, place.instance)
            except InstanceGoneError as gone:
                # A worker that takes no more requests may still end those that it has.
                if not gone.received and (
                    await self.bus.fleet.check(call.service, place.instance) is State.ALIVE
                ):
                    await asyncio.sleep(_LOOK_AGAIN_S)  # its lease is free after its last call
                    continue
                rounds += 1
                await self.take_over(caller, place)
                if gone.received and not wanted.may_repeat:
                    raise Fault(
                        ErrorCode.UNAVAILABLE,
                        f"The worker with the session of {self.server.name} ended during the "
                        "call, which may have been done. Look before you repeat it.",
                        retryable=False,
                    ) from None
        raise Fault(
            ErrorCode.UNAVAILABLE,
            f"The session of {self.server.name} moves to another worker. Try again.",
        )

    async def of(self, caller: str) -> Upstream | Holder:
        """The caller's connection, or the worker that has it. Raises Fault: overloaded where
        `max_callers` others have calls that run, unavailable after `stop`, or what `check`
        raises."""
        session = self._sessions.get(caller)
        if session is not None and self.leases.is_valid(session.lease):
            return self._use(caller, session.lease)
        if session is None and self.check is not None:
            await self.check(caller)
        lease = await self.leases.take(
            lease_key(self.server.name, caller), functools.partial(self._lost, caller)
        )
        return lease if isinstance(lease, Holder) else await self._opened(caller, lease)

    async def take_over(self, caller: str, holder: Holder) -> None:
        """Take the session of a worker that has left the bus, unless another one was first."""
        on_lost = functools.partial(self._lost, caller)
        try:
            lease = await self.leases.take_over(
                lease_key(self.server.name, caller), holder, on_lost
            )
        except Fault:
            return  # the next look at the store says who has it
        if lease is not None:
            count("session.events", server=self.server.name, event="taken_over")
            log.warning(
                "%s: the worker %s with the session of a caller is gone; its state is lost",
                self.server.name, holder.instance,
            )  # fmt: skip
            await self._opened(caller, lease)

    def end_unused(self) -> None:
        """Close what was not used for the idle time."""
        if self.server.idle_s:
            for caller, session in list(self._sessions.items()):
                if session.upstream.unused_s > self.server.idle_s:
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

    async def _opened(self, caller: str, lease: SessionLease) -> Upstream:
        try:
            return self._use(caller, lease)
        except Fault:
            await self.leases.release(lease)
            raise

    def _use(self, caller: str, lease: SessionLease) -> Upstream:
        session = self._sessions.pop(caller, None)
        if session is None:
            if self._stopped:
                # Its declaration changed, and the bus does not know the new one yet.
                raise Fault(ErrorCode.UNAVAILABLE, f"{self.server.name} is restarted. Try again.")
            if len(self._sessions) >= self.server.max_callers:
                self._end_one()
            session = _Session(self.connect(caller), lease)
            if not self.leases.is_valid(lease):
                count("session.events", server=self.server.name, event="without_lease")
                log.warning(
                    "%s: the session of a caller is opened without a lease, because the key-value "
                    "store is unreachable; another worker may open one too",
                    self.server.name,
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
            f"{self.server.name} has connections for {self.server.max_callers} callers, and all "
            "of them are in use. Try again shortly.",
        )

    def _end(self, caller: str) -> None:
        self._ending.start(self._close(self._sessions.pop(caller)))

    async def _close(self, session: _Session) -> None:
        await session.upstream.stop()
        await self.leases.release(session.lease)

    def _lost(self, caller: str, lease: SessionLease) -> None:
        """Close the connection of a caller whose session another worker has now."""
        session = self._sessions.get(caller)
        if session is None or session.lease is not lease:
            return
        count("session.events", server=self.server.name, event="lost")
        log.warning(
            "%s: another worker has the session of a caller now; the one here is closed",
            self.server.name,
        )
        del self._sessions[caller]
        self._ending.start(session.upstream.stop())


async def send_on(bus: Bus, call: Call, wanted: ServerRequest[T], instance: str) -> T:
    """Let another worker do a call; its progress and its log lines are passed on.

    Raises:
        InstanceGoneError: that worker has left the bus.
        Fault: the failure of the call.
    """
    events: asyncio.Queue[ToolEvent | None] = asyncio.Queue()
    relaying = asyncio.get_running_loop().create_task(_relay(call, events))
    code = "cancelled"
    try:
        reply = await bus.send(
            Request(
                getattr(bus.subjects, wanted.family)(wanted.server, wanted.name),
                wanted.message,
                wanted.reply_type,
                service=call.service,
                timeout_s=max(_LEAST_S, call.remaining_s - _MARGIN_S),
                # A caller without a name came without a signature.
                actor=None if call.actor == _NOBODY else call.actor,
                on_event=events.put_nowait,
                idempotent=wanted.may_repeat,
                instance=instance,
                instance_only=True,
            )
        )
        code = "ok"
        return reply
    except Fault as fault:
        code = fault.code
        raise
    finally:
        count("handovers", server=wanted.server, code=code)
        events.put_nowait(None)
        await relaying


async def _relay(call: Call, events: asyncio.Queue[ToolEvent | None]) -> None:
    """Pass on events in their order, before the reply."""
    while (event := await events.get()) is not None:
        await call.relay(event)
