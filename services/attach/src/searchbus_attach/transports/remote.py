"""The transports of a URL: streamable HTTP by the SDK's client, and the older SSE.

Their HTTP client is ours: it sends the declared headers and nothing of searchbus's callers, accepts
no compressed bodies, ends a plain body that is too large, and reads by the server's budget. Below
it is a transport of ours, or httpx2's where the environment names a proxy.
"""

from __future__ import annotations

import asyncio
import math
import re
import time
from collections.abc import AsyncGenerator, AsyncIterator, Collection
from contextlib import asynccontextmanager
from http.cookiejar import Cookie, CookieJar
from typing import Any
from urllib.request import getproxies

import anyio
import httpx2
from anyio.abc import TaskStatus
from mcp.client.streamable_http import StreamableHTTPTransport
from mcp.shared._httpx_utils import request_within_origin, sse_within_origin
from mcp.shared.message import SessionMessage
from mcp_types import (
    PARSE_ERROR,
    ErrorData,
    JSONRPCError,
    JSONRPCMessage,
    JSONRPCResponse,
    RequestId,
)

from ..declare.servers import Server
from ..errors import ServerError
from .budget import Budget
from .http import Http1Connection, Http1Transport
from .http.client import BearerAuth, BearerClient, origin
from .messages import CallerTasks, MessageStream, is_reply_too_many, read_message

MAX_BODY_BYTES = 16 * 2**20
"""The limit of a response that is not an event stream."""
MAX_ERROR_BODY_BYTES = 64 * 1024
"""The limit of a response with an error status, which the SDK parses."""
MAX_ANSWER_BYTES = 8 * 2**20
"""The limit of an event."""
_PIECE_BYTES = 4096
"""A part with many lines is passed on in pieces of this size: the SDK processes each line."""
_LINES_PER_MESSAGE = 8
"""So many lines of an event stream, or chunks of a body, cost as much work as one message."""
_CONNECT_TIMEOUT_S = 10.0
_IDLE_STREAM_S = 300.0
_PROXIED = {"http", "https", "all"}
"""Keys of the environment's proxies."""
_EVENTS = "text/event-stream"
_LENGTH = re.compile(r"[0-9]{1,15}")
_LISTEN = "subscriptions/listen"
"""The message whose answer lasts as long as the session."""
_STREAM_PAUSE_S = 0.05
"""Between two requests for a stream: those of all calls of a session may begin anew together."""
_END_TIMEOUT_S = 2.0
"""For the request that ends a session, which a server that hangs does not answer."""


class HttpNotes:
    """What the last responses said that the SDK does not pass on.

    Attributes:
        status: the status of the last response, 0 before one.
        auth: what signs the requests; None where nothing does.
        budget: what the server may send.
        unanswered: whether a message that was sent may have had no answer yet when the server could
            not be reached.
    """

    def __init__(self, budget: Budget | None = None) -> None:
        self.budget = budget or Budget("")
        self.status = 0
        self.auth: BearerAuth | None = None
        self.unanswered = False

    @property
    def advice(self) -> str:
        """A sentence where the server refuses who we are, or we are not signed in; empty
        otherwise.
        """
        if self.auth is not None and self.auth.problem:
            return self.auth.problem
        if self.status in (httpx2.codes.UNAUTHORIZED, httpx2.codes.FORBIDDEN):
            what = "set its 'headers' or 'auth'" if self.auth is None else "see its 'auth.scopes'"
            return f"it refuses the credentials (HTTP {self.status}); {what}"
        return ""

    def note_unreached(self, waiting: Collection[httpx2.Request]) -> None:
        """Note that no connection could be made; see `Http1Transport`."""
        if any(r.method == "POST" and r.headers.get("mcp-method") != _LISTEN for r in waiting):
            self.unanswered = True

    async def look_at(self, response: httpx2.Response) -> None:
        """Note the status, and limit the body; a hook of the HTTP client."""
        self.status = response.status_code
        encoding = response.headers.get("content-encoding", "identity")
        if encoding != "identity":
            raise httpx2.DecodingError(f"the response is encoded as {encoding[:40]}")
        if response.is_closed:
            return  # a small body that came with its head
        assert isinstance(response.stream, httpx2.AsyncByteStream)
        most: float = min(MAX_BODY_BYTES, MAX_ERROR_BODY_BYTES if response.is_error else math.inf)
        stated = response.headers.get("content-length", "")
        response.stream = _Limited(
            response.stream, math.inf if _is_stream(response) else most, self.budget,
            response.extensions.get("connection"), int(stated) if _LENGTH.fullmatch(stated) else 0,
        )  # fmt: skip


def _is_stream(response: httpx2.Response) -> bool:
    """Whether its events are read one by one. Every other body is read as a whole: that of a
    redirect, of a refusal, and where nobody asked for events.
    """
    if not response.is_success or not response.headers.get("content-type", "").startswith(_EVENTS):
        return False
    asked = response.request.headers.get("accept", "")
    return response.request.method != "DELETE" and _EVENTS in asked


async def _limit_end(request: httpx2.Request) -> None:
    if request.method == "DELETE":
        request.extensions["timeout"] = httpx2.Timeout(_END_TIMEOUT_S).as_dict()


class _Pace:
    """Spaces out requests for streams; a hook of the HTTP client.

    A server says after which time the SDK asks again for one that ended: after none, if it likes.
    """

    def __init__(self) -> None:
        self._next_s = 0.0

    async def keep(self, request: httpx2.Request) -> None:
        """Wait until a stream may be asked for."""
        if request.method == "GET":
            now_s = time.monotonic()
            start_s = max(now_s, self._next_s)
            self._next_s = start_s + _STREAM_PAUSE_S
            await asyncio.sleep(start_s - now_s)


class _Limited(httpx2.AsyncByteStream):
    """A body that is read by a budget, and fails where it is too large."""

    def __init__(
        self,
        stream: httpx2.AsyncByteStream,
        max_bytes: float,
        budget: Budget,
        connection: Http1Connection | None,
        stated_bytes: int,
    ) -> None:
        self._stream = stream
        self._max_bytes = max_bytes
        self._budget = budget
        self._connection = connection
        self._stated_bytes = stated_bytes

    async def __aiter__(self) -> AsyncIterator[bytes]:
        size_bytes = seen_parts = 0
        # One that says before that it is too large is not read at all.
        self._check(self._stated_bytes)
        async for chunk in self._stream:
            size_bytes += len(chunk)
            self._check(size_bytes)
            lines = chunk.count(b"\n") + chunk.count(b"\r")
            if self._connection is not None:
                parts = self._connection.parts
                await self._budget.pace(0, (parts - seen_parts) / _LINES_PER_MESSAGE)
                seen_parts = parts
            # Pieces, so that a part with nothing but lines is not one long turn.
            step = _PIECE_BYTES if lines > _PIECE_BYTES else len(chunk)
            for start in range(0, len(chunk), step):
                piece = chunk[start : start + step]
                messages = lines * len(piece) / len(chunk) / _LINES_PER_MESSAGE
                await self._budget.pace(len(piece), messages)
                yield piece

    async def aclose(self) -> None:
        await self._stream.aclose()

    def _check(self, size_bytes: int) -> None:
        if size_bytes > self._max_bytes:
            raise httpx2.StreamError(f"the response is larger than {self._max_bytes / 2**20:g} MiB")


@asynccontextmanager
async def remote_transport(server: Server, notes: HttpNotes) -> AsyncGenerator[Any]:
    """Yields the streams of a session with a URL.

    Args:
        server: its variables are expanded.

    Raises:
        httpx2.HTTPError: it cannot be reached, or the connection ended.
    """

    proxied = not _PROXIED.isdisjoint(getproxies())

    connections = 2 * server.max_in_flight + 8
    transport = None
    if not proxied:
        transport = Http1Transport(max_connections=connections, on_unreached=notes.note_unreached)
    # httpx2's own does not say; answers of the older SSE come on another connection.
    notes.unanswered = proxied or server.transport == "sse"
    client = BearerClient(
        transport=transport,
        auth=notes.auth,
        cookies=FewCookies(),
        headers={"Accept-Encoding": "identity", **server.headers},
        timeout=httpx2.Timeout(
            _CONNECT_TIMEOUT_S, read=max(_IDLE_STREAM_S, server.call_timeout_s + 30)
        ),
        limits=httpx2.Limits(max_connections=connections),
        event_hooks={"request": [_limit_end, _Pace().keep], "response": [notes.look_at]},
    )
    session = _older_sse if server.transport == "sse" else _streamable_http
    async with client as http, session(server.url, http, notes.budget) as streams:
        yield streams


class _Transport(StreamableHTTPTransport):
    """The SDK's; messages are read by the budget of the server, and not by pydantic."""

    def __init__(self, url: str, budget: Budget) -> None:
        super().__init__(url, max_sse_event_size=MAX_ANSWER_BYTES)
        self._budget = budget

    async def _handle_sse_event(
        self,
        sse: Any,
        read_stream_writer: Any,
        original_request_id: RequestId | None = None,
        resumption_callback: Any = None,
    ) -> bool:
        """Pass on an event; whether it is the answer to the request whose stream it is."""
        message = None
        if sse.event == "message" and sse.data:
            message = _read(sse.data.encode(), self._budget, original_request_id)
            if message is not None:
                await read_stream_writer.send(SessionMessage(message))
        if sse.id and resumption_callback is not None:
            await resumption_callback(sse.id)
        return isinstance(message, JSONRPCResponse | JSONRPCError)

    async def _handle_json_response(
        self, response: httpx2.Response, read_stream_writer: Any, *, request_id: RequestId
    ) -> None:
        """Pass on the answer to a request, or an error in its place."""
        try:
            message = _read(await response.aread(), self._budget, request_id)
            problem = "it is not an answer"
        except httpx2.StreamError as error:
            message, problem = None, str(error)
        if not isinstance(message, JSONRPCResponse | JSONRPCError):
            failure = ErrorData(code=PARSE_ERROR, message=f"Not read: {problem}")
            message = JSONRPCError(jsonrpc="2.0", id=request_id, error=failure)
        await read_stream_writer.send(SessionMessage(message))


@asynccontextmanager
async def _streamable_http(
    url: str, http: httpx2.AsyncClient, budget: Budget
) -> AsyncGenerator[Any]:
    """What the SDK's `streamable_http_client` does, with streams and tasks of ours."""
    transport = _Transport(url, budget)
    incoming = MessageStream[SessionMessage | Exception](shows_context=True)
    outgoing = MessageStream[SessionMessage](shows_context=False, refused=is_reply_too_many)
    # The transport names the SDK's own streams, and uses no more than their protocols.
    received: Any = incoming
    sent: Any = outgoing
    async with incoming, outgoing, anyio.create_task_group() as tasks:

        def listen() -> None:
            tasks.start_soon(transport.handle_get_stream, http, received)

        calls: Any = CallerTasks(tasks, outgoing)
        tasks.start_soon(transport.post_writer, http, sent, received, sent, listen, calls)
        try:
            yield incoming, outgoing
        finally:
            if transport.session_id:
                # The limit of the request itself is for each part of the response.
                with anyio.move_on_after(_END_TIMEOUT_S):
                    await transport.terminate_session(http)
            tasks.cancel_scope.cancel()


@asynccontextmanager
async def _older_sse(url: str, http: httpx2.AsyncClient, budget: Budget) -> AsyncGenerator[Any]:
    """What the SDK's `sse_client` does, with streams of ours, and messages read by the budget."""
    incoming = MessageStream[SessionMessage | Exception](shows_context=False)
    outgoing = MessageStream[SessionMessage](shows_context=False, refused=is_reply_too_many)

    async def read(events: httpx2.EventSource, *, task_status: TaskStatus[str]) -> None:
        async with incoming:
            async for event in events:
                if event.event == "endpoint":
                    address = httpx2.URL(url).join(event.data)
                    if origin(address) != origin(httpx2.URL(url)):
                        raise ServerError("it names an endpoint at another host")
                    task_status.started(str(address))
                elif event.event == "message" and event.data:
                    message = _read(event.data.encode(), budget)
                    if message is not None:
                        await incoming.send(SessionMessage(message))
        raise ServerError("it ended its stream")

    async def write(address: str) -> None:
        async with outgoing:
            async for sent in outgoing:
                body = sent.message.model_dump(by_alias=True, mode="json", exclude_unset=True)
                response = await request_within_origin(http, "POST", address, json=body)
                response.raise_for_status()

    async with (
        sse_within_origin(http, url, max_event_size=MAX_ANSWER_BYTES) as events,
        anyio.create_task_group() as tasks,
    ):
        events.response.raise_for_status()
        tasks.start_soon(write, await tasks.start(read, events))
        yield incoming, outgoing
        tasks.cancel_scope.cancel()


def _read(data: bytes, budget: Budget, request: RequestId | None = None) -> JSONRPCMessage | None:
    """A message, of which one that cannot be read is dropped."""
    try:
        return read_message(data, budget, answers=request)
    except ValueError:
        budget.drop("event", len(data))
        return None


MAX_COOKIES = 20
MAX_COOKIE_CHARS = 4096
"""Name and value together; browsers keep no larger ones either."""


class FewCookies(CookieJar):
    """Keeps a few small cookies: each request looks at all of them, and carries them.

    A server that sets others with each answer would hold the event loop for longer each time.
    """

    def set_cookie(self, cookie: Cookie) -> None:
        """See CookieJar; what is too large, or one too many, is not kept."""
        if len(cookie.name) + len(cookie.value or "") > MAX_COOKIE_CHARS:
            return
        known = any(
            (cookie.domain, cookie.path, cookie.name) == (one.domain, one.path, one.name)
            for one in self
        )
        if known or len(self) < MAX_COOKIES:
            super().set_cookie(cookie)
