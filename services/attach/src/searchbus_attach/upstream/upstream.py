"""One attached server: connected, listed, called, and connected again.

    starting ──> up ──> idle      a command without calls, until the next one
       ^  │       │
       │  v       v
       └─ down <──┘               for a pause that doubles, up to a minute

One task owns the connection: it connects, reads the list, and follows it until the connection is of
no more use. Calls wait for it, for as long as they have time. A call ends the pause of a URL where
nobody answered: its try is for all calls of that moment, and if it fails so do they. While a server
is down otherwise, calls fail at once. The outcome of calls is the truth about health; tools/list is
never used as a probe.
"""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections.abc import Callable
from typing import Any, TypeVar

import anyio
import msgspec
from mcp import MCPError
from mcp_types import LoggingMessageNotificationParams

from searchbus_bus import Call
from searchbus_bus.worker.shares import share
from searchbus_contracts import ErrorCode, Fault
from searchbus_contracts.attach import ServerState

from ..declare.auth_methods import OURSELVES
from ..declare.servers import Server
from ..definitions.describe import ServerTools
from ..definitions.replies import failure_of
from ..definitions.text import clean_line, sanitized
from ..errors import ItselfError, ServerProblem
from ..metrics import MeasuredCall, count
from ..transports.budget import Budget
from ..transports.notes import HttpNotes
from .connection import (
    ConnectionContext,
    ServerConnection,
    first_of,
    is_away,
    is_closed,
    is_over,
    is_refused,
    open_connection,
    why,
)
from .following import Following, Lists, Pauses, RunningCalls
from .session import ServerRequest

log = logging.getLogger("searchbus.attach")
T = TypeVar("T")

_STABLE_S = 10.0
"""A connection that ends sooner, before its server answered a call, was lost early (pauses.py)."""
_WORTH_WAITING_S = 2.0
"""A call waits for the next try if that is so soon; otherwise it fails at once."""
_LEAST_PAUSE_S = 0.1
"""Between two tries that calls ask for, at a server that is away."""
_QUICK_S = 1.0
"""A try that took longer is not worth another one for each call: an address that swallows all
connections would cost its callers ten seconds each."""
_REPLY_MARGIN_S = 0.25
"""Left of a caller's time for the reply that the server is not there."""
_LARGE_BYTES = 64 * 1024
"""A result of this size takes a millisecond to clean."""
_REFUSED_SESSION = "refused the session of this call"


class Upstream:
    """An attached server.

    Args:
        on_list: called when `lists` changed.
        poll_s: between two reads of the list, less or more by a fifth.
        grace_s: how long the last list stays while the server is away.
        caller: whose credentials are sent to a URL.
        names_only: see Lists.

    Attributes:
        lists: what the server offers, as it was read last.
        budget: what the server may send, in all of its connections.
        problem: why it is not up; empty otherwise.
        restarts: connections that were lost.
    """

    def __init__(
        self,
        server: Server,
        context: ConnectionContext,
        *,
        on_list: Callable[[Upstream], None],
        poll_s: float = 300.0,
        grace_s: float = 86_400.0,
        caller: str = OURSELVES,
        names_only: bool = False,
    ) -> None:
        self.server = server
        self.state: ServerState = "starting"
        self.lists = Lists(server, lambda: on_list(self), names_only=names_only)
        self.problem = ""
        self.restarts = 0
        self.server_info = ""
        self.protocol = ""
        self._context = context
        self.budget = context.budgets.setdefault(server.name, Budget(server.name))
        self._caller = caller
        self._grace_s = grace_s
        self._connection: ServerConnection | None = None
        self._changed = asyncio.Event()
        self._wanted = asyncio.Event()
        self._hurry = asyncio.Event()
        self._calls = RunningCalls()
        self._following = Following(server, self.lists, self._calls, poll_s=poll_s)
        self._away_since_s: float | None = time.monotonic()
        self._next_try_s = 0.0
        self._tries = 0
        self._away = False
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
        return self._calls.unused_s

    def start(self) -> None:
        """Connect in the background; the first request does it otherwise."""
        self._task = asyncio.get_running_loop().create_task(self._run())

    def try_now(self) -> None:
        """End the pause after a failure: what it waits for may be there now."""
        self._hurry.set()
        self._wanted.set()

    async def stop(self) -> None:
        """Close the connection, and end the command; calls that wait fail."""
        self._life.cancel()
        self._become("down", "its session was closed")
        if self._task is not None:
            await asyncio.gather(self._task, return_exceptions=True)

    async def request(self, call: Call, wanted: ServerRequest[T]) -> T:
        """Send a caller's request to the server; its reply.

        Raises:
            Fault: unavailable, overloaded, or what the server's error becomes.
        """
        with MeasuredCall(self.server.name):
            most = share(self.server.max_in_flight, len(self._calls))
            if self._calls.of(call.actor.subject) >= most:
                raise Fault(
                    ErrorCode.OVERLOADED,
                    f"{self.server.name} has {len(self._calls)} calls at once already. "
                    "Try again shortly.",
                    retry_after_ms=200,
                )
            with self._calls.including(call):
                await self._context.credentials.check(self.server, self._caller)
                if self._task is None:
                    self.start()
                raw = await self._result(call, wanted)
                if len(msgspec.json.encode(raw)) > _LARGE_BYTES:
                    # The calls of other servers go on meanwhile.
                    return await asyncio.to_thread(wanted.reply, raw)
                return wanted.reply(raw)

    async def _result(self, call: Call, wanted: ServerRequest[Any]) -> object:
        """The result of a request, which is sent a second time where that does no harm."""
        last = -math.inf

        async def on_progress(progress: float, total: float | None, message: str | None) -> None:
            nonlocal last
            connection.note_activity()
            # On the bus it must increase; and "1e999", which is JSON, is not a number there.
            if progress > last and math.isfinite(progress):
                last = progress
                total = total if total is not None and math.isfinite(total) else None
                await call.progress(progress, total, message and clean_line(message, 500))

        # Not every server refuses a session before it works.
        maybe_done = False
        for is_last in (False, True):
            try:
                connection = await self._connected(call)
            except Fault as fault:
                raise self._lost(_REFUSED_SESSION, False) if maybe_done else fault from None
            connection.used_by(call.actor.subject)
            try:
                with connection.asking():
                    async with asyncio.timeout(call.remaining_s - _REPLY_MARGIN_S):
                        params = wanted.params(self.lists.tools or ServerTools())
                        progress = on_progress if wanted.method == "tools/call" else None
                        raw = await connection.session.ask(wanted.method, params, progress)
                # To expire sessions is a server's right; a command that dies is at fault.
                self._proven = bool(self.server.url)
                return raw
            except TimeoutError:
                raise Fault(
                    ErrorCode.DEADLINE_EXCEEDED,
                    f"{self.server.name} did not answer in time. Try again with more time.",
                ) from None
            except MCPError as error:
                if not is_over(error):
                    raise await self._failure(connection, error) from None
                connection.give_up()
                if connection.hung:
                    raise self._lost(
                        "answered neither a ping nor this call", wanted.may_repeat
                    ) from None
                if is_closed(error) and not wanted.may_repeat:
                    if self.server.url:
                        await connection.ended.wait()
                    if not connection.never_reached:
                        raise self._lost("ended its connection during the call", False) from None
                maybe_done = maybe_done or (is_refused(error) and not wanted.may_repeat)
                if is_last:
                    lost = self._lost(_REFUSED_SESSION, False)
                    raise lost if maybe_done else self._unavailable() from None
        raise AssertionError("unreachable")

    async def _connected(self, call: Call) -> ServerConnection:
        """The connection, once there is one; raises Fault(unavailable) where none comes in time."""
        if self._connection is not None and not self._connection.over:
            return self._connection
        tries = self._tries
        try:
            async with asyncio.timeout(max(0.0, call.remaining_s - _REPLY_MARGIN_S)):
                while self._connection is None or self._connection.over:
                    if self._life.cancel_called:
                        raise self._unavailable()
                    # Only a try that began after the call shows that the server is away now.
                    tried = self._tries > tries
                    if self.state == "down" and (tried or self._next_try_in_s > _WORTH_WAITING_S):
                        raise self._unavailable()
                    self._wanted.set()
                    await self._changed.wait()
                return self._connection
        except TimeoutError:
            raise self._unavailable() from None

    async def _failure(self, connection: ServerConnection, error: MCPError) -> Fault:
        # The token may have been refused during the call, and no other be there.
        await self._context.credentials.check(self.server, self._caller)
        auth = connection.notes.auth
        if auth is not None and auth.problem:
            return Fault(
                ErrorCode.UNAVAILABLE,
                f"{self.server.name} cannot be used now: {auth.problem}. Use another tool.",
                retryable=False,
            )
        return failure_of(self.server.name, error)

    def _unavailable(self) -> Fault:
        found = self.problem
        problem = (found.told if isinstance(found, ServerProblem) else found) or "it is starting"
        left_s = self._next_try_in_s if self.state == "down" else 1.0
        return Fault(
            ErrorCode.UNAVAILABLE,
            f"{self.server.name} cannot be used now: {problem}. Try again later.",
            retry_after_ms=max(0, int(left_s * 1000)),
        )

    @property
    def _next_try_in_s(self) -> float:
        return self._next_try_s - time.monotonic()

    def _lost(self, what: str, may_repeat: bool) -> Fault:
        done = ", which may have been done. Look before you repeat it."
        text = f"{self.server.name} {what}{'. Try again.' if may_repeat else done}"
        return Fault(ErrorCode.UNAVAILABLE, text, retryable=may_repeat)

    def _become(self, state: ServerState, problem: str = "") -> None:
        """Change the state, and wake who waits for that."""
        self.state, self.problem = state, problem
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()

    async def _run(self) -> None:
        with self._life:
            pauses, due_s = Pauses(), 0.0
            while True:
                started_s, self._proven, self._away = time.monotonic(), False, False
                self._tries += 1
                problem = self.budget.problem or await self._connect_and_follow()
                problem = self.budget.problem or problem
                if not problem:
                    await self._rest()
                    continue
                was_up = self._away_since_s is None
                now_s = time.monotonic()
                early = now_s - started_s < _STABLE_S and not self._proven
                own_try = was_up or now_s >= due_s
                if own_try:  # those that calls ask for do not make the pause longer
                    due_s = now_s + pauses.after(was_up=was_up, early=early)
                least_s, pause_s = self.budget.held_s, max(due_s - now_s, self.budget.held_s)
                if own_try:
                    log.warning("%s: %s; next try in %.1f s", self.server.name, problem, pause_s)
                if was_up or not self._away or now_s - started_s >= _QUICK_S:
                    least_s = pause_s
                await self._be_away(problem, pause_s, min(max(least_s, _LEAST_PAUSE_S), pause_s))

    async def _rest(self) -> None:
        """Wait, without a connection, for the next call."""
        log.info("%s is idle; it starts again with the next call", self.server.name)
        self._wanted.clear()
        self._become("idle")
        await self._wanted.wait()
        self._become("starting")

    async def _be_away(self, problem: str, pause_s: float, least_s: float) -> None:
        """Pause; a call ends that after `least_s`."""
        now_s = time.monotonic()
        if self._away_since_s is None:
            self.restarts += 1
            count("restarts", server=self.server.name)
            self._away_since_s = now_s
        self.lists.stale = self.lists.tools is not None
        if not self.lists.given_up and now_s - self._away_since_s > self._grace_s:
            self.lists.give_up("it was away for too long")
        self._next_try_s = now_s + least_s
        if pause_s:
            self._hurry.clear()
            self._wanted.clear()
            self._become("down", problem)
            with anyio.move_on_after(least_s):
                await self._hurry.wait()
            with anyio.move_on_after(pause_s - least_s):
                await self._wanted.wait()
        self._become("starting", problem)

    async def _connect_and_follow(self) -> str:
        """Connect and follow the connection; why it ended, empty where nobody needs it now."""
        server, context, notes = self.server, self._context, HttpNotes(self.budget)
        connection: ServerConnection | None = None
        step = "start"
        try:
            with anyio.CancelScope() as scope, self.budget.ending(scope):
                scope.deadline = anyio.current_time() + server.start_timeout_s
                async with open_connection(server, context, notes, self._caller) as connection:
                    await connection.session.open_session()
                    if context.worker:
                        await connection.session.check_not_itself(server.name, context.worker)
                    step = "list its tools"
                    scope.deadline = anyio.current_time() + server.list_timeout_s
                    await self.lists.read(connection.session)
                    scope.deadline = math.inf
                    self._be_up(connection)
                    try:
                        await self._following.follow(connection)
                    finally:
                        self._connection = None
                    return connection.problem if connection.over else ""
            return f"it did not {step} in time"
        except Exception as error:
            if connection is not None:
                connection.note_end(error)
            log.debug("the connection to %s failed", self.server.name, exc_info=True)
            self._away = is_away(error, notes)
            if isinstance(first_of(error), ItselfError) and not self.lists.given_up:
                self.lists.give_up("it is this searchbus itself")  # also the list of the last run
            return why(error, notes)
        finally:
            if connection is not None:
                connection.ended.set()

    def _be_up(self, connection: ServerConnection) -> None:
        session = connection.session
        info = session.server_info
        self.server_info = clean_line(f"{info.name} {info.version}", 120) if info else ""
        self.protocol = str(session.protocol_version)
        log.info("%s is up (%s, MCP %s)", self.server.name, self.server_info, self.protocol)

        async def on_log(params: LoggingMessageNotificationParams) -> None:
            # A notice does not say to which call it belongs. With one call there is no doubt,
            # unless it comes late, of a call of somebody else; the one may still wait for a token.
            call = self._calls.only
            if call is not None and connection.speaks_to(call.actor.subject):
                logger = params.logger and clean_line(params.logger, 200)
                await call.log(params.level, sanitized(params.data), logger)

        connection.on_log = on_log
        self._away_since_s = None
        self._connection = connection
        self._become("up")
