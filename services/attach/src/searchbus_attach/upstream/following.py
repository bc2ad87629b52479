"""Follows a connection that is up: its lists, whether its server lives, whether anybody needs it.

await Following(server, lists, calls, poll_s=300).follow(connection)

The lists are read again from time to time, and when the server says that one changed. A server is
asked for a sign of life only beside a call during which it is silent, or after one that it did not
answer.
"""

from __future__ import annotations

import asyncio
import logging
import math
import random
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TypeVar

import anyio
from mcp import MCPError

from searchbus_bus import Call
from searchbus_bus.tasks import within

from ..declare.servers import Server
from ..definitions.describe import (
    ServerContents,
    ServerTools,
    describe,
    describe_contents,
    names_of,
)
from ..errors import ServerError, ServerProblem
from ..metrics import count
from ..transports.notes import HttpNotes
from .connection import ServerConnection, is_over, why
from .session import ServerSession

log = logging.getLogger("searchbus.attach")

DEBOUNCE_S = 0.5
"""Between a notice of change and the reading of the list, for all notices of a burst."""
CALM = 10
"""Between two readings of the list, in times of what one costs: a server that changes a long list
all the time takes a tenth of our time."""
_LEAST_WAIT_S = 0.05


class Following:
    """Follows the connections of one server, one after the other.

    Args:
        lists: that are kept current.
        calls: that use the connection.
        poll_s: between two readings of the lists, less or more by a fifth.
    """

    def __init__(self, server: Server, lists: Lists, calls: RunningCalls, *, poll_s: float) -> None:
        self._server = server
        self._lists = lists
        self._calls = calls
        self._poll_s = poll_s

    async def follow(self, connection: ServerConnection) -> None:
        """Until the connection is over, or nobody has used it for the idle time."""
        self._calls.note_use()
        # The sessions of callers have one budget, and so one calm time.
        budget = connection.notes.budget
        poll_at_s, noticed_s = self._next_poll_s(), math.inf

        def read_at_s() -> float:
            return min(poll_at_s, max(noticed_s, budget.calm_until_s))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(connection.follow_changes)
            tasks.start_soon(self._look_at_doubts, connection)
            tasks.start_soon(_end_with, connection, tasks.cancel_scope)
            while True:
                wait_s = min(read_at_s() - time.monotonic(), self._idle_in_s)
                with anyio.move_on_after(max(_LEAST_WAIT_S, wait_s)):
                    await connection.attention.wait()
                connection.attention.clear()
                if connection.over or self._idle_in_s <= 0:
                    break
                now_s = time.monotonic()
                if connection.list_changed and noticed_s == math.inf:
                    noticed_s = now_s + DEBOUNCE_S
                if now_s < read_at_s():
                    continue
                connection.list_changed = False
                await self._read_again(connection)
                poll_at_s, noticed_s = self._next_poll_s(), math.inf
                now_s = time.monotonic()
                calm_until_s = max(now_s, budget.calm_until_s) + CALM * self._lists.cost_s
                budget.calm_until_s = min(calm_until_s, now_s + self._poll_s)
            tasks.cancel_scope.cancel()

    async def _look_at_doubts(self, connection: ServerConnection) -> None:
        """Beside the reading of lists, which a server that hangs makes as long as its limit."""
        while True:
            await connection.doubtful.wait()
            await self.ping(connection)

    async def ping(self, connection: ServerConnection) -> None:
        """Give up a connection whose server hangs: it answers neither a ping nor a call.

        A server that does one thing at a time answers a ping after its calls, and needs a
        `ping_timeout_s` as long as these.
        """
        connection.doubtful.clear()
        asked_s = time.monotonic()
        wait_s = self._server.ping_timeout_s
        try:
            await within(connection.session.ask("ping", {}), wait_s)
        except TimeoutError:
            if connection.active_s < asked_s:
                connection.hung = True
                told = "it answered neither a call nor a ping"
                advice = "if it does one thing at a time, set a larger 'ping_timeout_s'"
                connection.give_up(ServerProblem(f"{told} of {wait_s:g} s; {advice}", told))
            return
        except MCPError as error:
            if is_over(error):
                connection.give_up()
        connection.note_activity()

    @property
    def _idle_in_s(self) -> float:
        """Seconds until a command without calls is ended; infinite where it is not."""
        if not self._server.command or not self._server.idle_s:
            return math.inf
        return self._server.idle_s - self._calls.unused_s

    async def _read_again(self, connection: ServerConnection) -> None:
        """Read the lists of a running connection; the last ones stay where that fails."""
        try:
            with anyio.fail_after(self._server.list_timeout_s):
                await self._lists.read(connection.session)
        except (MCPError, ServerError, TimeoutError) as error:
            self._lists.stale = True
            log.warning(
                "%s: its list cannot be read: %s", self._server.name, why(error, HttpNotes())
            )
            if is_over(error):
                connection.give_up()

    def _next_poll_s(self) -> float:
        return time.monotonic() + about(self._poll_s)


async def _end_with(connection: ServerConnection, work: anyio.CancelScope) -> None:
    """A ping or a list that takes long does not keep a connection that is over."""
    await connection.given_up.wait()
    work.cancel()


_MOST_LINES = 20
"""Lines of the log for one reading: a server can change thousands of names every second."""
Listed = TypeVar("Listed")
Found = TypeVar("Found")


class Lists:
    """The lists of one server.

    Args:
        on_change: called when `tools` or `contents` changed.
        names_only: nothing but the names of tools is kept, for a session whose definitions are
            those of another.

    Attributes:
        tools: None before the first list, and once it was given up.
        contents: prompts and resources.
        stale: whether the server is away, or could not be asked for its lists again.
        given_up: whether its last lists are not kept any more.
        cost_s: our own time for the last reading, without that of the server.
    """

    def __init__(
        self, server: Server, on_change: Callable[[], None], *, names_only: bool = False
    ) -> None:
        self._server = server
        self._on_change = on_change
        self._names_only = names_only
        self.tools: ServerTools | None = None
        self.contents = ServerContents()
        self.stale = False
        self.given_up = False
        self.cost_s = 0.0

    async def read(self, session: ServerSession) -> None:
        """Read what the server offers; without prompts and resources it can still be used.

        Raises:
            MCPError: the tools cannot be listed, or the session ended.
            ServerError: the list of tools is not one of MCP.
        """
        self.cost_s = 0.0
        if self._names_only:
            self.tools = await self._in_thread(names_of, await session.list_all())
            self.stale = self.given_up = False
            return
        tools = await self._in_thread(describe, await session.list_all())
        contents = self.contents
        try:
            contents = await self._in_thread(describe_contents, await session.list_contents())
        except (MCPError, ServerError) as error:
            if is_over(error):
                raise
            log.warning(
                "%s: its prompts and resources cannot be read: %s",
                self._server.name, why(error, HttpNotes()),
            )  # fmt: skip
        self.stale = self.given_up = False
        self._report("tool ", tools.refused, self.tools.refused if self.tools is not None else {})
        self._report("", contents.refused, self.contents.refused)
        if (tools, contents) != (self.tools, self.contents):
            self.tools, self.contents = tools, contents
            self._on_change()

    async def _in_thread(
        self, describe: Callable[[Server, Listed, Callable[[], bool]], Found], listed: Listed
    ) -> Found:
        late, started_s = threading.Event(), time.monotonic()
        try:
            # The calls of other servers go on meanwhile.
            return await asyncio.to_thread(describe, self._server, listed, late.is_set)
        finally:
            late.set()
            self.cost_s += time.monotonic() - started_s

    def give_up(self, reason: str) -> None:
        """The server offers nothing until it is read again."""
        log.warning("%s: its tools are not listed: %s", self._server.name, reason)
        self.given_up = True
        self.tools, self.contents = None, ServerContents()
        self._on_change()  # also where there was no list: that of the last run is shown until now

    def _report(self, kind: str, refused: Mapping[str, str], before: Mapping[str, str]) -> None:
        """Count what cannot be listed, and log some of it, once."""
        if refused and refused != before:
            count("refused", len(refused), server=self._server.name)
            for name, reason in list(refused.items())[:_MOST_LINES]:
                log.warning("%s: the %s%s is not listed: %s", self._server.name, kind, name, reason)
            if len(refused) > _MOST_LINES:
                log.warning(
                    "%s: %d more are not listed; searchbus attach show %s",
                    self._server.name, len(refused) - _MOST_LINES, self._server.name,
                )  # fmt: skip


class RunningCalls:
    """Calls that run or wait for a connection."""

    def __init__(self) -> None:
        self._calls: set[Call] = set()
        self._used_s = time.monotonic()

    def __len__(self) -> int:
        return len(self._calls)

    @contextmanager
    def including(self, call: Call) -> Iterator[None]:
        """Around one call."""
        self._calls.add(call)
        try:
            yield
        finally:
            self._calls.discard(call)
            self.note_use()

    def of(self, caller: str) -> int:
        """How many are of one caller."""
        return sum(call.actor.subject == caller for call in self._calls)

    def note_use(self) -> None:
        """The server was of use until now."""
        self._used_s = time.monotonic()

    @property
    def unused_s(self) -> float:
        """Seconds since the end of the last call; 0 while there are calls."""
        return 0.0 if self._calls else time.monotonic() - self._used_s

    @property
    def only(self) -> Call | None:
        """The call, where it is the only one."""
        return next(iter(self._calls)) if len(self._calls) == 1 else None


PAUSE_S = (1.0, 60.0)
"""The first and the longest."""
_jitter = random.Random()  # noqa: S311  (of times, no secret)


class Pauses:
    """The pauses between the connections of one server."""

    def __init__(self) -> None:
        self._pause_s = 0.0
        self._lost_early = False

    def after(self, *, was_up: bool, early: bool) -> float:
        """Seconds until the next one.

        Args:
            was_up: whether the last one could be used.
            early: whether it ended soon.
        """
        if was_up and not (early and self._lost_early):
            self._pause_s = 0.0
        else:
            self._pause_s = min(max(PAUSE_S[0], 2 * self._pause_s), PAUSE_S[1])
        self._lost_early = was_up and early
        return about(self._pause_s)


def about(seconds: float) -> float:
    """Less or more by a fifth, so that many servers are not asked at one moment."""
    return seconds * _jitter.uniform(0.8, 1.2)
