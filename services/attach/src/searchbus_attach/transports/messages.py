"""Reads messages of servers: looked through as bytes first, parsed where that is cheap.

pydantic, with which the SDK parses, takes seconds for the eight million bytes that a message may
have, and hundreds of bytes of memory for each of its values.
"""

from __future__ import annotations

import asyncio
import contextvars
from collections import deque
from collections.abc import Callable
from typing import Any, Generic, Literal, TypeVar

import anyio
import anyio.abc
import msgspec
from mcp.shared.message import SessionMessage
from mcp_types import (
    CONNECTION_CLOSED,
    INTERNAL_ERROR,
    PARSE_ERROR,
    ErrorData,
    JSONRPCError,
    JSONRPCMessage,
    JSONRPCNotification,
    JSONRPCRequest,
    JSONRPCResponse,
    RequestId,
)
from msgspec import UNSET, Raw, Struct, UnsetType

from searchbus_contracts.codec import long_integer
from searchbus_contracts.schemas import levels

from .budget import Budget

MAX_VALUES = 200_000
"""The limit of a message: a page of 5,000 tools has as many."""
MAX_DEPTH = 200
"""Levels of arguments; pydantic writes no more than 254 of a message."""
_FIRST_BYTES = 512 * 1024
_LOG = "notifications/message"
_NULL = b"null"
T = TypeVar("T")


class _Envelope(Struct):
    jsonrpc: Literal["2.0"]
    id: int | str | UnsetType | None = UNSET
    method: str | UnsetType = UNSET
    params: Raw = Raw(_NULL)
    result: Raw = Raw(_NULL)
    error: Raw = Raw(_NULL)


class _Error(Struct):
    code: int
    message: str
    data: Any = None


_ENVELOPE = msgspec.json.Decoder(_Envelope)
_PARAMS = msgspec.json.Decoder(dict[str, Any] | None)
_RESULT = msgspec.json.Decoder(dict[str, Any])
_ERROR = msgspec.json.Decoder(_Error)


def read_message(
    data: bytes, budget: Budget, *, answers: RequestId | None = None
) -> JSONRPCMessage | None:
    """One message; None where it is dropped.

    Args:
        answers: the request for which it came. An answer is one to this, and what cannot be read
            becomes an error in its place.

    Raises:
        ValueError: it is not a message of JSON-RPC.
    """
    try:
        found = _decoded(_ENVELOPE, data)
    except ValueError as error:
        if answers is None:
            raise
        return _refusal(answers, str(error))
    if found.method is not UNSET:
        if not budget.takes("log" if found.method == _LOG else "event", len(data)):
            return None
        params = _decoded(_PARAMS, found.params)
        if found.id is UNSET or found.id is None:
            return JSONRPCNotification.model_construct(
                jsonrpc="2.0", method=found.method, params=params
            )
        return JSONRPCRequest.model_construct(
            jsonrpc="2.0", id=found.id, method=found.method, params=params
        )
    answered = answers if answers is not None else found.id
    is_error = bytes(found.error) != _NULL
    if answered is UNSET or (answered is None and not is_error):
        raise ValueError("neither a request nor an answer")
    values = count_values(data)
    budget.note_values(values)
    if values > MAX_VALUES:
        budget.drop("answer", len(data))
        return _refusal(answered, f"the answer has more than {MAX_VALUES:,} values")
    if long_integer(data):  # no message of the bus may have one
        return _refusal(answered, "the answer has an integer of more than 20 digits")
    try:
        if answered is None or is_error:
            refused = _decoded(_ERROR, found.error)
            code = sent_code(refused.code, refused.message)
            failure = ErrorData(code=code, message=refused.message, data=refused.data)
            return JSONRPCError(jsonrpc="2.0", id=answered, error=failure)
        result = _decoded(_RESULT, found.result)
    except ValueError as error:
        return _refusal(answered, f"validation error: {error}")
    if data.count(b"{") + data.count(b"[") > MAX_DEPTH and is_deeper(result, MAX_DEPTH):
        return _refusal(answered, f"the answer is nested more than {MAX_DEPTH} levels deep")
    return JSONRPCResponse.model_construct(jsonrpc="2.0", id=answered, result=result)


def says_closed(code: int, message: str) -> bool:
    """Whether an error is that of a connection which ended, by the words of the SDK."""
    return code == CONNECTION_CLOSED and (
        message == "Connection closed" or message.startswith("SSE stream")
    )


def sent_code(code: int, message: str) -> int:
    """The code of an error that a server sent, whose own connection did not end then."""
    return INTERNAL_ERROR if says_closed(code, message) else code


def is_deeper(value: object, most: int) -> bool:
    """Whether JSON has more than so many lists and objects inside each other."""
    for depth, level in enumerate(levels(value)):
        if depth == most:
            return any(isinstance(one, dict | list) for one in level)
    return False


def count_values(data: bytes) -> int:
    """How many values JSON has, without parsing it; a few more for each list and object.

    What is in strings is counted too, unless that makes a difference to `MAX_VALUES`.
    """
    marks = _marks(data)
    if marks <= MAX_VALUES:
        return marks
    # The first part of a message that is nothing but values shows it: the whole takes long.
    for part in (data[:_FIRST_BYTES], data):
        bare = part.replace(rb"\\", b"").replace(rb"\"", b"")
        if bare.count(b'"') > 4 * MAX_VALUES:  # a key and a value each
            return marks
        values = _marks(b"".join(bare.split(b'"')[::2]))
        if values > MAX_VALUES:
            return marks
    return values


def _marks(data: bytes) -> int:
    return len(data) - len(data.translate(None, b",[{"))


def _decoded(decoder: msgspec.json.Decoder[T], data: bytes | Raw) -> T:
    """What it decodes. Raises ValueError."""
    try:
        return decoder.decode(data)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise ValueError(str(error)) from None


def _refusal(request: RequestId | None, why: str) -> JSONRPCError:
    return JSONRPCError(
        jsonrpc="2.0", id=request, error=ErrorData(code=PARSE_ERROR, message=f"Not read: {why}")
    )


_MAX_WAITING = 100
"""Messages that were not received yet; who sends one more waits."""

_MAX_REPLY_CHARS = 64 * 1024
"""It says little, but repeats the id, and the name of a method that we do not have."""


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
        self._handled = asyncio.Event()
        self._handled.set()
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
        self._handled.clear()
        self._wake()

    async def handled(self) -> None:
        """Wait until the receiver has done with all messages and wants the next, or the stream is
        closed."""
        await self._handled.wait()

    async def receive(self) -> T:
        """The next message; raises anyio.EndOfStream after the last one of a closed stream."""
        while not self._items:
            if self._closed:
                raise anyio.EndOfStream
            self._handled.set()
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
        self._handled.set()
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

    async def __aexit__(self, *_: object) -> None:
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
    """Starts a request's task, in the connection's group, in the context of who sent the message
    that was received last."""

    def __init__(self, group: anyio.abc.TaskGroup, messages: MessageStream[Any]) -> None:
        self._group = group
        self._messages = messages

    def start_soon(self, function: Any, *fields: Any) -> None:
        """See anyio.abc.TaskGroup."""
        self._messages.sender.run(self._group.start_soon, function, *fields)
