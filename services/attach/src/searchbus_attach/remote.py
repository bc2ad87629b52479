"""The transports of a URL: the SDK's clients for streamable HTTP and for the older SSE.

Their HTTP client is ours: it sends the declared headers and nothing of searchbus's callers, accepts
no compressed bodies, and ends a plain body that is too large. Below it is a transport of ours, or
httpx2's where the environment names a proxy.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, AsyncIterator, Collection
from contextlib import asynccontextmanager
from typing import Any
from urllib.request import getproxies

import anyio
import httpx2
from mcp.client.sse import sse_client
from mcp.client.streamable_http import StreamableHTTPTransport
from mcp.shared.message import SessionMessage

from .auth.bearer import BearerAuth, BearerClient
from .http.cookies import FewCookies
from .http.transport import Http1Transport
from .message_stream import CallerTasks, MessageStream, is_reply_too_many
from .servers import Server

__all__ = ["MAX_BODY_BYTES", "HttpNotes", "remote_transport"]

MAX_BODY_BYTES = 32 * 2**20
"""Of a response that is not an event stream."""
MAX_EVENT_BYTES = 8 * 2**20
_CONNECT_TIMEOUT_S = 10.0
_IDLE_STREAM_S = 300.0
_PROXIED = {"http", "https", "all"}
"""Keys of the environment's proxies."""
_EVENTS = "text/event-stream"
_LISTEN = "subscriptions/listen"
"""The message whose answer lasts as long as the session."""
_STREAM_PAUSE_S = 0.05
"""Between two requests for a stream: those of all calls of a session may begin anew together."""
_END_TIMEOUT_S = 2.0
"""For the request that ends a session, which a server that hangs does not answer."""


class HttpNotes:
    """What the last responses said that the SDK does not pass on.

    Attributes:
        status: of the last response, 0 before one.
        auth: what signs the requests; None where nothing does.
        unanswered: whether a message that was sent may have had no answer yet when the server could
            not be reached.
    """

    def __init__(self) -> None:
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
        if not _is_stream(response):
            assert isinstance(response.stream, httpx2.AsyncByteStream)
            response.stream = _Limited(response.stream)


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
    """A body that fails where it is larger than `MAX_BODY_BYTES`."""

    def __init__(self, stream: httpx2.AsyncByteStream) -> None:
        self._stream = stream

    async def __aiter__(self) -> AsyncIterator[bytes]:
        size_bytes = 0
        async for chunk in self._stream:
            size_bytes += len(chunk)
            if size_bytes > MAX_BODY_BYTES:
                raise httpx2.StreamError(
                    f"the response is larger than {MAX_BODY_BYTES // 2**20} MiB"
                )
            yield chunk

    async def aclose(self) -> None:
        await self._stream.aclose()


@asynccontextmanager
async def remote_transport(server: Server, notes: HttpNotes) -> AsyncGenerator[Any]:
    """Yields the streams of a session with a URL.

    Args:
        server: its variables are expanded.

    Raises:
        httpx2.HTTPError: it cannot be reached, or the connection ended.
    """

    proxied = not _PROXIED.isdisjoint(getproxies())

    def client(
        headers: dict[str, str] | None = None,
        timeout: httpx2.Timeout | None = None,
        auth: httpx2.Auth | None = None,
    ) -> httpx2.AsyncClient:
        connections = 2 * server.max_in_flight + 8
        transport = None
        if proxied:
            notes.unanswered = True  # httpx2's own does not say
        else:
            transport = Http1Transport(
                max_connections=connections, on_unreached=notes.note_unreached
            )
        return BearerClient(
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

    if server.transport == "sse":
        notes.unanswered = True  # answers come on another connection
        async with sse_client(server.url, httpx_client_factory=client) as streams:
            yield streams
        return
    async with client() as http, _streamable_http(server.url, http) as streams:
        yield streams


@asynccontextmanager
async def _streamable_http(url: str, http: httpx2.AsyncClient) -> AsyncGenerator[Any]:
    """What the SDK's `streamable_http_client` does, with streams and tasks of ours."""
    transport = StreamableHTTPTransport(url, max_sse_event_size=MAX_EVENT_BYTES)
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
