"""The streams between the SDK's session and its transport, with less work a message.

The SDK joins both by memory streams of anyio without a buffer: each message takes two tasks in
turns, and a group of tasks of its own, so that the request is made in the context of its caller.
The SDK asks for no more than its protocols ReadStream and WriteStream, which one class fulfils.
"""

from __future__ import annotations

import asyncio
import contextvars
from collections import deque
from collections.abc import Callable
from types import TracebackType
from typing import Any, Generic, TypeVar

import anyio
import anyio.abc
from mcp.shared.message import SessionMessage
from mcp_types import JSONRPCError, JSONRPCResponse

__all__ = ["CallerTasks", "MessageStream", "is_reply_too_many"]

_MAX_WAITING = 100
"""Messages that were not received yet; who sends one more waits."""

_MAX_REPLY_CHARS = 64 * 1024
"""It says little, but repeats the id, and the name of a method that we do not have."""

T = TypeVar("T")


class MessageStream(Generic[T]):
    """Messages in their order, from any number of senders to one receiver; both ends.

    Args:
        refused: whether a message is not taken, also by whether many wait already; its
            sender gets anyio.BrokenResourceError.
        shows_context: the SDK's receivers handle each message in `last_context`, if there is one.

    Attributes:
        sender: the context in which the message that was received last had been sent.
    """

    def __init__(
        self, *, shows_context: bool, refused: Callable[[T, bool], bool] = lambda *_: False
    ) -> None:
        self._refused = refused
        self._shows_context = shows_context
        self._items: deque[tuple[contextvars.Context, T]] = deque()
        self._waiter: asyncio.Future[None] | None = None
        self._room = asyncio.Event()
        self._room.set()
        self._closed = False
        self.sender = contextvars.Context()

    @property
    def last_context(self) -> contextvars.Context | None:
        """`sender`, where it is shown."""
        return self.sender if self._shows_context else None

    async def send(self, item: T, /) -> None:
        """Add a message; raises anyio.BrokenResourceError once the stream is closed."""
        if self._refused(item, len(self._items) >= _MAX_WAITING):
            raise anyio.BrokenResourceError
        while len(self._items) >= _MAX_WAITING and not self._closed:
            self._room.clear()
            await self._room.wait()
        if self._closed:
            raise anyio.BrokenResourceError
        self._items.append((contextvars.copy_context(), item))
        self._wake()

    async def receive(self) -> T:
        """The next message; raises anyio.EndOfStream after the last one of a closed stream."""
        while not self._items:
            if self._closed:
                raise anyio.EndOfStream
            self._waiter = asyncio.get_running_loop().create_future()
            try:
                await self._waiter
            finally:
                self._waiter = None
        self.sender, item = self._items.popleft()
        if not self._room.is_set():
            self._room.set()
        return item

    def close(self) -> None:
        """Take no more messages; those that were sent can be received."""
        self._closed = True
        self._room.set()
        self._wake()

    async def aclose(self) -> None:
        """See `close`."""
        self.close()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def __aiter__(self) -> MessageStream[T]:
        return self

    async def __anext__(self) -> T:
        try:
            return await self.receive()
        except anyio.EndOfStream:
            raise StopAsyncIteration from None

    async def __aenter__(self) -> MessageStream[T]:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()


def is_reply_too_many(message: SessionMessage, many_wait: bool) -> bool:
    """Whether an answer to a request of the server is one too many, or holds too much of it.

    The SDK has a task for each, so a server that asks without end, and does not read, would take
    all memory.
    """
    reply = message.message
    if not isinstance(reply, JSONRPCResponse | JSONRPCError):
        return False
    return many_wait or len(reply.model_dump_json()) > _MAX_REPLY_CHARS


class CallerTasks:
    """Starts a request's task in the context of who sent the message that was received last.

    Args:
        group: of all tasks of the connection.
    """

    def __init__(self, group: anyio.abc.TaskGroup, messages: MessageStream[Any]) -> None:
        self._group = group
        self._messages = messages

    def start_soon(self, function: Any, *fields: Any) -> None:
        """See anyio.abc.TaskGroup."""
        self._messages.sender.run(self._group.start_soon, function, *fields)
