"""The transports of a URL: streamable HTTP by the SDK's client, and the older SSE.

Their HTTP client is ours: it sends the declared headers and nothing of searchbus's callers, accepts
no compressed bodies, ends a plain body that is too large, and reads by the server's budget. Below
it is a transport of ours, or httpx2's where the environment names a proxy.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator
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
from ..errors import AuthError, ServerError
from .budget import MAX_EVENT_BYTES, Budget
from .direct import DirectRequests
from .events import EventReader
from .http import Http1Transport
from .http.client import BearerClient, origin
from .messages import CallerTasks, MessageStream, is_reply_too_many, read_message
from .notes import STATUS, HttpNotes
from .posting import Posting, by_status

log = logging.getLogger("searchbus.attach")

MAX_ANSWER_BYTES = 8 * 2**20
"""The limit of an event."""
_CONNECT_TIMEOUT_S = 10.0
_IDLE_STREAM_S = 300.0
_PROXIED = {"http", "https", "all"}
"""Keys of the environment's proxies."""
_EVENTS = "text/event-stream"
_STREAM_ATTEMPTS = 2
"""To open it; each one that opens counts anew."""
_STREAM_RETRY_S = 1.0
"""Before it is asked for again, where the server names no other time."""
_END_TIMEOUT_S = 2.0
"""For the request that ends a session, which a server that hangs does not answer."""


async def _limit_end(request: httpx2.Request) -> None:
    if request.method == "DELETE":
        request.extensions["timeout"] = httpx2.Timeout(_END_TIMEOUT_S).as_dict()


@asynccontextmanager
async def remote_transport(
    server: Server, notes: HttpNotes, direct: DirectRequests
) -> AsyncGenerator[Any]:
    """Yields the streams of a session with a URL.

    Args:
        server: its variables are expanded.
        direct: can send where there is no proxy.

    Raises:
        httpx2.HTTPError: it cannot be reached, or the connection ended.
    """

    async def keep_pace(request: httpx2.Request) -> None:
        if request.method == "GET":
            await notes.budget.pace_stream()

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
        event_hooks={"request": [_limit_end, keep_pace], "response": [notes.look_at]},
    )
    if server.transport == "sse":
        session = _older_sse(server.url, client, notes.budget)
    else:
        session = _streamable_http(server.url, client, notes, direct, transport)
    async with client, session as streams:
        yield streams


class _Transport(StreamableHTTPTransport):
    """The SDK's; messages are read by the budget of the server, and not by pydantic."""

    def __init__(self, url: str, budget: Budget, direct: DirectRequests) -> None:
        super().__init__(url, max_sse_event_size=MAX_ANSWER_BYTES)
        self._budget = budget
        self._direct = direct

    def headers(self) -> dict[str, str]:
        """What each request of the session has."""
        return self._prepare_headers()

    async def handle_get_stream(self, client: httpx2.AsyncClient, read_stream_writer: Any) -> None:
        """Pass on what the server sends of itself; its stream is asked for again when it ends.

        The SDK's reads events for four times the CPU, and gives up a stream that broke off twice.
        """
        # It has no answers: what is larger than a notice is dropped before it is in memory.
        events = EventReader(
            max_bytes=MAX_ANSWER_BYTES, kept_bytes=MAX_EVENT_BYTES,
            on_dropped=lambda size_bytes: self._budget.drop("event", size_bytes),
        )  # fmt: skip
        failed = 0
        while self.session_id and failed < _STREAM_ATTEMPTS:
            last = {} if events.last_id is None else {"last-event-id": events.last_id}
            failed += 1
            try:
                async with sse_within_origin(
                    client, self.url, headers=self.headers() | last
                ) as source:
                    if source.response.has_redirect_location:  # to another host: as the next time
                        return
                    found = source.response.raise_for_status()
                    if not found.headers.get("content-type", "").lower().startswith(_EVENTS):
                        return
                    failed = 0
                    events.begin()
                    async for part in found.aiter_bytes():
                        for data in events.read(part):
                            message = _read(data, self._budget)
                            if message is not None and not await self._direct.take(message):
                                await read_stream_writer.send(SessionMessage(message))
            except (anyio.BrokenResourceError, httpx2.SSEError):
                return  # the session ends, or an event is too large, which would come again
            except (httpx2.HTTPError, httpx2.StreamError, AuthError):
                log.debug("the stream of a server's own messages ended", exc_info=True)
            await asyncio.sleep(_STREAM_RETRY_S if events.retry_s is None else events.retry_s)

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
            if message is not None and not await self._direct.take(message):
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


class _Incoming(MessageStream[SessionMessage | Exception]):
    """What the SDK's transport receives; an error that refuses the session is marked."""

    def __init__(self, transport: _Transport) -> None:
        super().__init__(shows_context=True)
        self._transport = transport

    async def send(self, item: SessionMessage | Exception, /) -> None:
        """See MessageStream."""
        if isinstance(item, SessionMessage) and isinstance(item.message, JSONRPCError):
            item = SessionMessage(by_status(item.message, STATUS.get(), self._transport.headers()))
        await super().send(item)


@asynccontextmanager
async def _streamable_http(
    url: str, http: BearerClient, notes: HttpNotes, direct: DirectRequests,
    http1: Http1Transport | None,
) -> AsyncGenerator[Any]:  # fmt: skip
    """What the SDK's `streamable_http_client` does, with streams and tasks of ours."""
    transport = _Transport(url, notes.budget, direct)
    incoming = _Incoming(transport)
    outgoing = MessageStream[SessionMessage](shows_context=False, refused=is_reply_too_many)
    # The transport names the SDK's own streams, and uses no more than their protocols.
    received: Any = incoming
    sent: Any = outgoing
    async with incoming, outgoing, anyio.create_task_group() as tasks:

        def listen() -> None:
            tasks.start_soon(transport.handle_get_stream, http, received)

        calls: Any = CallerTasks(tasks, outgoing)
        tasks.start_soon(transport.post_writer, http, sent, received, sent, listen, calls)
        if http1 is not None:

            async def pass_on(message: JSONRPCMessage) -> None:
                if not await direct.take(message):
                    await incoming.send(SessionMessage(message))

            posting = Posting(
                url, http1, http, session_headers=transport.headers, pass_on=pass_on,
                read=lambda data, request: _read(data, notes.budget, request),
                notes=notes, max_event_bytes=MAX_ANSWER_BYTES,
            )  # fmt: skip
            tasks.start_soon(posting.watch)
            direct.send = posting.send
        try:
            yield incoming, outgoing
        finally:
            direct.send = None
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
