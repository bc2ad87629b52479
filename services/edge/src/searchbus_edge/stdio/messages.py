"""The messages of one client on standard input and output, from the first moment on.

Until the edge is open, a server without services answers the handshake; all other messages wait.
The edge's server then gets, in order, the handshake again, whose second answer is dropped, and what
nobody has answered. So a client is answered at once however long a stack takes to start, and the
end of standard input is noticed meanwhile.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import mcp_types as types
from mcp.server import NotificationOptions, Server
from mcp.shared._context_streams import create_context_streams
from mcp.shared.message import SessionMessage

from searchbus_bus import end_task

_HANDSHAKE = ("initialize", "notifications/initialized")
_AT_ONCE = ("server/discover", "ping")
"""Answered by the first server, and not again by the edge's."""
_ENDLESS = "subscriptions/listen"
"""Answered when the client leaves."""
LISTS_WAIT_S = 30.0
"""For the edge; then the first server answers requests for lists, which are reported as changed
later. Hosts give up after a minute."""
_CHANGED = tuple(f"notifications/{kind}/list_changed" for kind in ("tools", "prompts", "resources"))


class Lines:
    """The lines of a descriptor, read by a thread that holds up no end of the process.

    The SDK's reader waits for the client even where the process has a reason to end. The descriptor
    itself is empty from then on: no child process reads what the client sends.
    """

    def __init__(self, descriptor: int) -> None:
        self._loop = asyncio.get_running_loop()
        self._lines: asyncio.Queue[bytes | None] = asyncio.Queue(1)
        self._source = os.fdopen(os.dup(descriptor), "rb", closefd=False)
        empty = os.open(os.devnull, os.O_RDONLY)
        os.dup2(empty, descriptor)
        os.close(empty)
        threading.Thread(target=self._read, daemon=True).start()

    async def __aiter__(self) -> AsyncIterator[str]:
        while (line := await self._lines.get()) is not None:
            yield line.decode("utf-8", "replace")

    def _read(self) -> None:
        try:
            for line in self._source:
                self._pass(line)
            self._pass(None)
        except RuntimeError:  # the loop has ended
            return

    def _pass(self, line: bytes | None) -> None:
        passing = self._lines.put(line)
        try:
            asyncio.run_coroutine_threadsafe(passing, self._loop).result()
        finally:
            passing.close()


class ClientMessages:
    """What the client sends and what it is sent, as the two ends of the SDK's `stdio_server`."""

    def __init__(self, incoming: Any, outgoing: Any) -> None:
        self._incoming = incoming
        self._outgoing = outgoing
        self._waiting: list[Any] = []
        self._first: Any = None
        self._edge: Any = None
        self._late = False
        self._answered: set[Any] = set()
        self._asked: set[Any] = set()
        self._all_answered = asyncio.Event()
        self._all_answered.set()
        self._initialized = False
        self._changed = asyncio.Event()
        self._one_at_a_time = asyncio.Lock()

    async def read(self) -> None:
        """Pass on what the client sends; returns at the end of standard input."""
        async for message in self._incoming:
            self._note(message)
            self._initialized |= _method(message) == "notifications/initialized"
            async with self._one_at_a_time:
                await self._take(message)

    async def all_answered(self) -> None:
        """Wait until every request that was read is answered, or was cancelled."""
        await self._all_answered.wait()

    def _note(self, message: Any, *, answered: bool = False) -> None:
        """Keep the ids of the requests that are not answered yet."""
        method, identity = _method(message), _identity(message)
        if answered:
            self._asked.discard(identity)
        elif method == "notifications/cancelled":
            cancelled = (message.message.params or {}).get("requestId")
            self._asked = {asked for asked in self._asked if asked != cancelled}
        elif method not in ("", _ENDLESS) and identity is not None:
            self._asked.add(identity)
        if self._asked:
            self._all_answered.clear()
        else:
            self._all_answered.set()

    async def _take(self, message: Any) -> None:
        if self._edge is not None:
            await self._edge.send(message)
            return
        self._waiting.append(message)
        if self._first is not None and self._is_for_first(_method(message)):
            await self._first.send(message)

    def _is_for_first(self, method: str) -> bool:
        return method in _HANDSHAKE or method in _AT_ONCE or (self._late and _is_list(method))

    @asynccontextmanager
    async def greeted_by(self, server: Server[Any]) -> AsyncIterator[None]:
        """Let a server without services answer the handshake meanwhile."""
        first, end = create_context_streams[Any](0)
        loop = asyncio.get_running_loop()
        running = loop.create_task(self._run(server, end, dropped=set()))
        async with self._one_at_a_time:
            self._first, earlier, self._waiting = first, self._waiting, []
            for message in earlier:
                await self._take(message)
        listing = loop.create_task(self._answer_lists())
        try:
            yield
        finally:
            async with self._one_at_a_time:
                self._first = None
            await end_task(listing)
            await end_task(running)

    async def serve(self, server: Server[Any]) -> None:
        """Let the edge's server answer everything from now on."""
        entrance, end = create_context_streams[Any](0)
        loop = asyncio.get_running_loop()
        feeding = loop.create_task(self._feed(entrance))
        telling = loop.create_task(self._tell_changes())
        if self._late:
            self._changed.set()
        try:
            await self._run(server, end, dropped=self._answered)
        finally:
            await end_task(feeding)
            await end_task(telling)

    def lists_changed(self) -> None:
        """Tell a client of a revision before 2026-07-28; later ones ask to be told."""
        self._changed.set()

    async def _feed(self, entrance: Any) -> None:
        while self._waiting:
            await entrance.send(self._waiting.pop(0))
        self._edge = entrance

    async def _answer_lists(self) -> None:
        await asyncio.sleep(LISTS_WAIT_S)
        self._late = True
        for message in [waiting for waiting in self._waiting if _is_list(_method(waiting))]:
            await self._first.send(message)

    async def _tell_changes(self) -> None:
        while True:
            await self._changed.wait()
            self._changed.clear()
            for method in _CHANGED if self._initialized else ():
                notification = types.JSONRPCNotification(jsonrpc="2.0", method=method)
                await self._outgoing.send(SessionMessage(notification))

    async def _run(self, server: Server[Any], incoming: Any, *, dropped: set[Any]) -> None:
        """Serve one server; its answers to the requests in `dropped` are left out."""
        answers, found = create_context_streams[Any](0)

        async def pass_on() -> None:
            async for answer in found:
                identity = _identity(answer)
                if identity in dropped and not _method(answer):
                    dropped.discard(identity)
                    continue
                await self._outgoing.send(answer)
                if not _method(answer):
                    self._note(answer, answered=True)
                    self._settle(answer)

        passing = asyncio.get_running_loop().create_task(pass_on())
        try:
            changes = NotificationOptions(True, True, True)
            await server.run(incoming, answers, server.create_initialization_options(changes))
        finally:
            await end_task(passing)

    def _settle(self, answer: Any) -> None:
        """Let an answered request wait no longer, except a handshake that succeeded. One that was
        refused must not reach the edge's server, which would refuse all later requests after it.
        """
        identity = _identity(answer)
        for message in self._waiting:
            if identity is not None and _identity(message) == identity:
                succeeded = isinstance(answer.message, types.JSONRPCResponse)
                if succeeded and _method(message) == "initialize":
                    self._answered.add(identity)
                else:
                    self._waiting.remove(message)
                return


def _method(message: Any) -> str:
    """Method of a request or a notification; empty for answers and for what is not JSON-RPC."""
    return getattr(getattr(message, "message", None), "method", "")


def _identity(message: Any) -> Any:
    """Id of a request or an answer; None for others."""
    return getattr(getattr(message, "message", None), "id", None)


def _is_list(method: str) -> bool:
    return method.endswith("/list")
