"""One attached server: connected, listed, called, and connected again.

    starting ──> up ──> idle      a command without calls, until the next one
       ^  │       │
       │  v       v
       └─ down <──┘               for a pause that doubles, up to a minute

One task owns the connection: it connects, reads the list, and follows it until the connection is of
no more use. Calls wait for it, for as long as they have time; while the server is down they fail at
once. The outcome of calls is the truth about health; tools/list is never used as a probe.
"""

from __future__ import annotations

import asyncio
import logging
import math
import random
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

import anyio
from mcp import MCPError
from mcp.shared.dispatcher import ProgressFnT
from mcp_types import LoggingMessageNotificationParams

from searchbus_bus import Call
from searchbus_contracts import ErrorCode, Fault
from searchbus_contracts.attach import ServerState

from .auth.credentials import OURSELVES
from .connection import Connection, Surroundings, is_closed, is_refused, open_connection, why
from .describe import ServerTools
from .faults import ServerFault
from .lists import Lists
from .metrics import count_restart
from .remote import HttpNotes
from .replies import failure_of
from .servers import Server
from .session import ServerSession
from .text import clean_line

__all__ = ["Upstream"]

log = logging.getLogger("searchbus.attach")
T = TypeVar("T")

_jitter = random.Random()  # noqa: S311  (of times, no secret)
_PAUSE_S = (1.0, 60.0)
_STABLE_S = 10.0
"""A connection that lasted so long is replaced without a pause; of shorter ones, one is, unless
its server answered a call."""
_DEBOUNCE_S = 0.5
"""Between a notice of change and the reading of the list, for all notices of a burst."""
_CALM = 10
"""Between two readings of the list, in times of what one costs: a server that changes a long list
all the time takes a tenth of our time."""
_LEAST_WAIT_S = 0.05
_WORTH_WAITING_S = 2.0
"""A call waits for the next try if that is so soon; otherwise it fails at once."""
_REPLY_MARGIN_S = 0.25
"""Left of a caller's time for the reply that the server is not there."""


class Upstream:
    """An attached server.

    Args:
        on_list: called when `lists` changed.
        poll_s: between two reads of the list, less or more by a fifth.
        grace_s: how long the last list stays while the server is away.
        caller: whose credentials are sent to a URL.

    Attributes:
        lists: what the server offers, as it was read last.
        problem: why it is not up; empty otherwise.
        restarts: connections that were lost.
    """

    def __init__(
        self,
        server: Server,
        around: Surroundings,
        *,
        on_list: Callable[[Upstream], None],
        poll_s: float = 300.0,
        grace_s: float = 86_400.0,
        caller: str = OURSELVES,
    ) -> None:
        self.server = server
        self.state: ServerState = "starting"
        self.lists = Lists(server, lambda: on_list(self))
        self.problem = ""
        self.restarts = 0
        self.server_info = ""
        self.protocol = ""
        self._around = around
        self._caller = caller
        self._poll_s = poll_s
        self._grace_s = grace_s
        self._connection: Connection | None = None
        self._changed = asyncio.Event()
        self._wanted = asyncio.Event()
        self._hurry = asyncio.Event()
        self._calls: set[Call] = set()
        self._used_s = time.monotonic()
        self._away_since_s: float | None = time.monotonic()
        self._next_try_s = 0.0
        self._proven = False
        self._life = anyio.CancelScope()
        self._task: asyncio.Task[None] | None = None

    @property
    def in_flight(self) -> int:
        """Calls that run or wait."""
        return len(self._calls)

    @property
    def unused_s(self) -> float:
        """Seconds since the end of the last call; 0 while there are calls."""
        return 0.0 if self._calls else time.monotonic() - self._used_s

    def start(self) -> None:
        """Connect in the background; the first request does it otherwise."""
        self._task = asyncio.get_running_loop().create_task(self._run())

    def try_now(self) -> None:
        """End the pause after a failure: what it waits for may be there now."""
        self._hurry.set()

    async def stop(self) -> None:
        """Close the connection, and end the command; calls that wait fail."""
        self._life.cancel()
        self._become("down", "its session was closed")
        if self._task is not None:
            await asyncio.gather(self._task, return_exceptions=True)

    async def call(
        self, call: Call, name: str, arguments: dict[str, object], *, may_repeat: bool = False
    ) -> object:
        """Call a tool; the result as the server sent it.

        Args:
            name: on the bus.
            may_repeat: as for `request`.

        Raises:
            Fault: unavailable, overloaded, not_found, or what the server's error becomes.
        """

        async def send(session: ServerSession, on_progress: ProgressFnT) -> object:
            own_name = (self.lists.tools or ServerTools()).own_names.get(name)
            if own_name is None:
                raise Fault(ErrorCode.NOT_FOUND, f"{self.server.name} has no such tool any more.")
            return await session.call(own_name, arguments, on_progress)

        return await self.request(call, send, may_repeat=may_repeat)

    async def request(
        self,
        call: Call,
        send: Callable[[ServerSession, ProgressFnT], Awaitable[T]],
        *,
        may_repeat: bool = True,
    ) -> T:
        """Send a request of any kind; the result as the server sent it.

        Args:
            may_repeat: whether it can be sent again where it may have been done.

        Raises:
            Fault: unavailable, overloaded, or what the server's error becomes.
        """
        if len(self._calls) >= self.server.max_in_flight:
            raise Fault(
                ErrorCode.OVERLOADED,
                f"{self.server.name} has {self.server.max_in_flight} calls at once already.",
            )
        self._calls.add(call)
        try:
            await self._around.credentials.check(self.server, self._caller)
            if self._task is None:
                self.start()
            return await self._request(call, send, may_repeat)
        finally:
            self._calls.discard(call)
            self._used_s = time.monotonic()

    async def _request(
        self,
        call: Call,
        send: Callable[[ServerSession, ProgressFnT], Awaitable[T]],
        may_repeat: bool,
    ) -> T:
        last = -math.inf

        async def on_progress(progress: float, total: float | None, message: str | None) -> None:
            nonlocal last
            if progress > last:  # on the bus it must increase
                last = progress
                await call.progress(progress, total, message and clean_line(message, 500))

        for is_last in (False, True):
            connection = await self._connected(call)
            connection.used_by(call.actor.subject)
            try:
                with connection.asking():
                    raw = await send(connection.session, on_progress)
                # To expire sessions is a server's right; a command that dies is at fault.
                self._proven = bool(self.server.url)
                return raw
            except MCPError as error:
                if not (is_refused(error) or is_closed(error)):
                    raise await self._failure(connection, error) from None
                connection.give_up()
                if is_closed(error) and not may_repeat:
                    if self.server.url:
                        await connection.ended.wait()
                    if not connection.never_reached:
                        raise self._lost() from None
                if is_last:
                    raise self._unavailable() from None
        raise AssertionError("unreachable")

    async def _connected(self, call: Call) -> Connection:
        """The connection, as soon as there is one; raises Fault(unavailable) where there is none
        in time.
        """
        try:
            async with asyncio.timeout(max(0.0, call.remaining_s - _REPLY_MARGIN_S)):
                while self._connection is None or self._connection.over:
                    if self._life.cancel_called:
                        raise self._unavailable()
                    if self.state == "down" and self._next_try_in_s > _WORTH_WAITING_S:
                        raise self._unavailable()
                    self._wanted.set()
                    await self._changed.wait()
                return self._connection
        except TimeoutError:
            raise self._unavailable() from None

    async def _failure(self, connection: Connection, error: MCPError) -> Fault:
        # The token may have been refused during the call, and no other be there.
        await self._around.credentials.check(self.server, self._caller)
        if connection.auth is not None and connection.auth.problem:
            return Fault(
                ErrorCode.UNAVAILABLE,
                f"{self.server.name} cannot be used now: {connection.auth.problem}.",
                retryable=False,
            )
        return failure_of(self.server.name, error)

    def _unavailable(self) -> Fault:
        problem = self.problem or "it is starting"
        left_s = self._next_try_in_s if self.state == "down" else 1.0
        return Fault(
            ErrorCode.UNAVAILABLE,
            f"{self.server.name} cannot be used now: {problem}.",
            retry_after_ms=max(0, int(left_s * 1000)),
        )

    @property
    def _next_try_in_s(self) -> float:
        return self._next_try_s - time.monotonic()

    def _lost(self) -> Fault:
        return Fault(
            ErrorCode.UNAVAILABLE,
            f"The connection to {self.server.name} ended during the call, which may have been "
            "done. Look before you repeat it.",
            retryable=False,
        )

    def _become(self, state: ServerState, problem: str = "") -> None:
        """Change the state, and wake who waits for that."""
        self.state, self.problem = state, problem
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()

    async def _run(self) -> None:
        with self._life:
            pause_s = 0.0
            lost_early = False
            while True:
                started_s, self._proven = time.monotonic(), False
                problem = await self._connect_and_follow()
                if not problem:
                    await self._rest()
                    continue
                was_up = self._away_since_s is None
                early = time.monotonic() - started_s < _STABLE_S and not self._proven
                if was_up and not (early and lost_early):
                    pause_s = 0.0
                else:
                    pause_s = min(max(_PAUSE_S[0], 2 * pause_s), _PAUSE_S[1])
                lost_early = was_up and early
                await self._be_away(problem, pause_s * _jitter.uniform(0.8, 1.2))

    async def _rest(self) -> None:
        """Wait, without a connection, for the next call."""
        log.info("%s is idle; it starts again with the next call", self.server.name)
        self._wanted.clear()
        self._become("idle")
        await self._wanted.wait()
        self._become("starting")

    async def _be_away(self, problem: str, pause_s: float) -> None:
        now_s = time.monotonic()
        if self._away_since_s is None:
            self.restarts += 1
            count_restart(self.server.name)
            self._away_since_s = now_s
        log.warning("%s: %s; next try in %.1f s", self.server.name, problem, pause_s)
        self.lists.keep()
        if not self.lists.given_up and now_s - self._away_since_s > self._grace_s:
            self.lists.give_up()
        self._next_try_s = now_s + pause_s
        if pause_s:
            self._become("down", problem)
            self._hurry.clear()
            with anyio.move_on_after(pause_s):
                await self._hurry.wait()
        self._become("starting", problem)

    async def _connect_and_follow(self) -> str:
        """Connect and follow the connection; why it ended, empty where nobody needs it now."""
        notes = HttpNotes()
        connection: Connection | None = None
        step = "start"
        try:
            with anyio.CancelScope() as scope:
                scope.deadline = anyio.current_time() + self.server.start_timeout_s
                async with open_connection(
                    self.server, self._around, notes, self._caller
                ) as connection:
                    await connection.session.open_session()
                    step = "list its tools"
                    scope.deadline = anyio.current_time() + self.server.list_timeout_s
                    await self.lists.read(connection.session)
                    scope.deadline = math.inf
                    self._be_up(connection)
                    try:
                        await self._follow(connection)
                    finally:
                        self._connection = None
                    if not connection.over:
                        return ""
                    return connection.problem
            return f"it did not {step} in time"
        except Exception as error:
            if connection is not None:
                connection.cause = error
            log.debug("the connection to %s failed", self.server.name, exc_info=True)
            return why(error, notes)
        finally:
            if connection is not None:
                connection.ended.set()

    def _be_up(self, connection: Connection) -> None:
        session = connection.session
        info = session.server_info
        self.server_info = clean_line(f"{info.name} {info.version}", 120) if info else ""
        self.protocol = str(session.protocol_version)
        log.info("%s is up (%s, MCP %s)", self.server.name, self.server_info, self.protocol)

        async def on_log(params: LoggingMessageNotificationParams) -> None:
            # A notice does not say to which call it belongs. With one call there is no doubt,
            # unless it comes late, of a call of somebody else.
            if len(self._calls) == 1 and not connection.shared:
                (call,) = self._calls
                await call.log(params.level, params.data, params.logger)

        connection.on_log = on_log
        self._away_since_s = None
        self._connection = connection
        self._become("up")

    async def _follow(self, connection: Connection) -> None:
        """Until the connection is of no use, or nobody has used it for the idle time."""
        self._used_s = time.monotonic()
        poll_at_s, notice_at_s, calm_until_s = self._next_poll_s(), math.inf, 0.0
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(connection.follow_changes)
            while True:
                read_in_s = min(poll_at_s, notice_at_s) - time.monotonic()
                wait_s = min(read_in_s, self._idle_in_s)
                with anyio.move_on_after(max(_LEAST_WAIT_S, wait_s)):
                    await connection.attention.wait()
                connection.attention.clear()
                if connection.doubtful:
                    await self._ping(connection)
                if connection.over or self._idle_in_s <= 0:
                    break
                now_s = time.monotonic()
                if connection.list_changed and notice_at_s == math.inf:
                    notice_at_s = max(now_s + _DEBOUNCE_S, calm_until_s)
                if now_s < min(poll_at_s, notice_at_s):
                    continue
                connection.list_changed = False
                await self._read_again(connection)
                poll_at_s, notice_at_s = self._next_poll_s(), math.inf
                calm_until_s = time.monotonic() + _CALM * self.lists.cost_s
            tasks.cancel_scope.cancel()

    async def _ping(self, connection: Connection) -> None:
        """Give up a connection whose server hangs: it answers neither a ping nor a call.

        A server that does one thing at a time answers a ping after the calls that it has, so the
        ping has as long as these.
        """
        connection.doubtful = False
        asked_s = time.monotonic()
        wait_s = max([self.server.ping_timeout_s, *(call.remaining_s for call in self._calls)])
        with anyio.move_on_after(wait_s) as scope:
            try:
                await connection.session.ping()
            except MCPError as error:
                if is_closed(error) or is_refused(error):
                    connection.give_up()
        if scope.cancelled_caught and connection.answered_s < asked_s:
            connection.give_up("it does not answer")

    @property
    def _idle_in_s(self) -> float:
        """Seconds until a command without calls is ended; infinite where it is not."""
        if not self.server.command or not self.server.idle_s:
            return math.inf
        if self._calls:
            return self.server.idle_s
        return self._used_s + self.server.idle_s - time.monotonic()

    async def _read_again(self, connection: Connection) -> None:
        """Read the list of a running connection; the last one stays where that fails."""
        try:
            with anyio.fail_after(self.server.list_timeout_s):
                await self.lists.read(connection.session)
        except (MCPError, ServerFault, TimeoutError) as error:
            self.lists.stale = True
            log.warning(
                "%s: its list cannot be read: %s", self.server.name, why(error, HttpNotes())
            )
            if isinstance(error, MCPError) and (is_closed(error) or is_refused(error)):
                connection.give_up()

    def _next_poll_s(self) -> float:
        return time.monotonic() + self._poll_s * _jitter.uniform(0.8, 1.2)
