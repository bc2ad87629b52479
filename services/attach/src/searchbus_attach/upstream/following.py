"""Follows a connection that is up: its lists, whether its server lives, whether anybody needs it.

await Following(server, lists, calls, poll_s=300).follow(connection)

The lists are read again from time to time, and when the server says that one changed. A server is
asked for a sign of life only beside a call during which it is silent, or after one that it did not
answer.
"""

from __future__ import annotations

import logging
import math
import time

import anyio
from mcp import MCPError

from ..declare.servers import Server
from ..faults import Problem, ServerFault
from ..transports.remote import HttpNotes
from .connection import Connection, is_closed, is_refused, why
from .lists import Lists
from .pauses import about
from .running import RunningCalls

__all__ = ["Following"]

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

    async def follow(self, connection: Connection) -> None:
        """Until the connection is over, or nobody has used it for the idle time."""
        self._calls.note_use()
        poll_at_s, notice_at_s, calm_until_s = self._next_poll_s(), math.inf, 0.0
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(connection.follow_changes)
            tasks.start_soon(_end_with, connection, tasks.cancel_scope)
            while True:
                read_in_s = min(poll_at_s, notice_at_s) - time.monotonic()
                wait_s = min(read_in_s, self._idle_in_s)
                with anyio.move_on_after(max(_LEAST_WAIT_S, wait_s)):
                    await connection.attention.wait()
                connection.attention.clear()
                if connection.doubtful:
                    await self.ping(connection)
                if connection.over or self._idle_in_s <= 0:
                    break
                now_s = time.monotonic()
                if connection.list_changed and notice_at_s == math.inf:
                    notice_at_s = max(now_s + DEBOUNCE_S, calm_until_s)
                if now_s < min(poll_at_s, notice_at_s):
                    continue
                connection.list_changed = False
                await self._read_again(connection)
                poll_at_s, notice_at_s = self._next_poll_s(), math.inf
                calm_until_s = time.monotonic() + CALM * self._lists.cost_s
            tasks.cancel_scope.cancel()

    async def ping(self, connection: Connection) -> None:
        """Give up a connection whose server hangs: it answers neither a ping nor a call.

        A server that does one thing at a time answers a ping after its calls, and needs a
        `ping_timeout_s` as long as these.
        """
        connection.doubtful = False
        asked_s = time.monotonic()
        wait_s = self._server.ping_timeout_s
        with anyio.move_on_after(wait_s) as scope:
            try:
                await connection.session.ping()
            except MCPError as error:
                if is_closed(error) or is_refused(error):
                    connection.give_up()
            connection.note_activity()
        if scope.cancelled_caught and connection.active_s < asked_s:
            connection.hung = True
            told = "it answered neither a call nor a ping"
            advice = "if it does one thing at a time, set a larger 'ping_timeout_s'"
            connection.give_up(Problem(f"{told} of {wait_s:g} s; {advice}", told))

    @property
    def _idle_in_s(self) -> float:
        """Seconds until a command without calls is ended; infinite where it is not."""
        if not self._server.command or not self._server.idle_s:
            return math.inf
        return self._server.idle_s - self._calls.unused_s

    async def _read_again(self, connection: Connection) -> None:
        """Read the lists of a running connection; the last ones stay where that fails."""
        try:
            with anyio.fail_after(self._server.list_timeout_s):
                await self._lists.read(connection.session)
        except (MCPError, ServerFault, TimeoutError) as error:
            self._lists.stale = True
            log.warning(
                "%s: its list cannot be read: %s", self._server.name, why(error, HttpNotes())
            )
            if isinstance(error, MCPError) and (is_closed(error) or is_refused(error)):
                connection.give_up()

    def _next_poll_s(self) -> float:
        return time.monotonic() + about(self._poll_s)


async def _end_with(connection: Connection, work: anyio.CancelScope) -> None:
    """A ping or a list that takes long does not keep a connection that is over."""
    await connection.given_up.wait()
    work.cancel()
