"""Direct requests to a URL: a POST each, whose response is read in the task of its call.

They need no client of httpx2, which costs as much again: its requests, responses and hooks are for
cookies, redirects and proxies. A server that needs one of these is left to the SDK.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterable, Awaitable, Callable, Mapping
from dataclasses import KW_ONLY, dataclass

import httpx2
from mcp.shared._httpx_utils import sse_within_origin
from mcp_types import (
    CONNECTION_CLOSED,
    INTERNAL_ERROR,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    PARSE_ERROR,
    ErrorData,
    JSONRPCError,
    JSONRPCMessage,
    JSONRPCResponse,
)

from ..errors import AuthError
from .direct import Answer, NotDirectError, closed
from .events import EventReader
from .http import Http1Response, Http1Transport, head_of
from .http.client import BearerAuth, BearerClient
from .notes import HttpNotes

log = logging.getLogger("searchbus.attach")

_ATTEMPTS = 2
"""To go on with a stream of events that ended before the answer; one that goes on counts anew."""
_PAUSE_S = 1.0
"""Before each, where the server names no other."""
_EVENTS = "text/event-stream"
REFUSED_SESSION = object()
"""The `data` of an error by which a server refused a session; none that it sends is the same."""
_REFUSING = {httpx2.codes.BAD_REQUEST, httpx2.codes.NOT_FOUND}
_SESSION_NOT_FOUND = -32001
Read = Callable[[bytes, int], JSONRPCMessage | None]
Pass = Callable[[JSONRPCMessage], Awaitable[None]]


@dataclass(eq=False, repr=False)  # the URL may have a password
class Posting:
    """Sends requests to a URL.

    Args:
        client: of the same transport; has the headers of each request.
        session_headers: what each request of the session has beside them.
        read: reads a message that came for a request.
        pass_on: takes what a stream has beside the answer.
        notes: limits and notes what comes.
        max_event_bytes: the limit of an event.
    """

    url: str
    transport: Http1Transport
    client: BearerClient
    _: KW_ONLY
    session_headers: Callable[[], dict[str, str]]
    read: Read
    pass_on: Pass
    notes: HttpNotes
    max_event_bytes: int

    def __post_init__(self) -> None:
        self._times = self.client.timeout.as_dict()
        self._redirected = False
        self._failure: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._last: tuple[dict[str, str], httpx2.Request, bytes] | None = None

    async def watch(self) -> None:
        """Wait for the exception that ends the connection, and raise it."""
        await self._failure

    async def send(self, request_id: int, body: bytes, headers: dict[str, str]) -> Answer:
        """See `direct.Send`."""
        if self._redirected or len(self.client.cookies.jar):
            raise NotDirectError
        try:
            return await self._send(request_id, body, headers)
        except NotDirectError:
            raise
        except Exception as error:
            # As in the SDK: what is wrong with the address ends the session, and all its requests.
            if not self._failure.done():
                self._failure.set_exception(error)
            raise closed() from None

    async def _send(self, request_id: int, body: bytes, headers: dict[str, str]) -> Answer:
        request, head = self._head({**self.session_headers(), **headers})
        try:
            if self.notes.auth is None:
                found = await self._exchange(request, head, body)
            else:
                found = await self._signed(self.notes.auth, request, body)
        except AuthError:  # nothing was sent
            return _error(request_id, *self._of_status(httpx2.codes.UNAUTHORIZED))
        try:
            kind = self._look_at(found, request)
            if found.status == httpx2.codes.OK and kind.startswith(_EVENTS):
                return await self._events(request_id, found)
            if httpx2.codes.MULTIPLE_CHOICES <= found.status < httpx2.codes.BAD_REQUEST:
                self._redirected = True
                raise NotDirectError
            content = await self._content(found, request)
        finally:
            await found.aclose()
        return self._answer(request_id, found.status, kind, content)

    async def _exchange(self, request: httpx2.Request, head: bytes, body: bytes) -> Http1Response:
        message = b"%bContent-Length: %d\r\n\r\n%b" % (head, len(body), body)
        return await self.transport.exchange(message, request, self._times)

    async def _signed(
        self, auth: BearerAuth, request: httpx2.Request, body: bytes
    ) -> Http1Response:
        """The response to a request with its token, or with the next one; raises AuthError."""
        flow = auth.async_auth_flow(request)
        request = await anext(flow)
        while True:
            found = await self._exchange(request, _head_of(request), body)
            try:
                request = await flow.asend(httpx2.Response(found.status, request=request))
            except BaseException as error:
                if isinstance(error, StopAsyncIteration):
                    return found
                await found.aclose()
                raise
            await found.aclose()

    def _look_at(self, found: Http1Response, request: httpx2.Request) -> str:
        """Note what the head says; the type of the body."""
        kind = ""
        self.notes.status = found.status
        for name, value in found.headers:
            match name.lower():
                case b"content-type":
                    kind = value.decode("latin-1").lower()
                case b"content-encoding" if value.lower() != b"identity":
                    raise httpx2.DecodingError("the response is encoded")
                case b"set-cookie":
                    response = httpx2.Response(found.status, headers=found.headers, request=request)
                    self.client.cookies.extract_cookies(response)
        return kind

    def _head(self, headers: dict[str, str]) -> tuple[httpx2.Request, bytes]:
        """The head of a request without its length; most are as the one before."""
        if self._last is None or self._last[0] != headers:
            request = self.client.build_request("POST", self.url, json={}, headers=headers)
            if request.url.userinfo and self.notes.auth is None:
                basic = httpx2.BasicAuth(request.url.username, request.url.password)
                next(basic.auth_flow(request))
            self._last = headers, request, _head_of(request)
        return self._last[1:]

    async def _content(self, found: Http1Response, request: httpx2.Request) -> bytes | str:
        """The body; why it cannot be read where it is too large."""
        if found.is_small:
            return await found.whole()
        response = httpx2.Response(
            found.status, headers=found.headers, stream=found, request=request,
            extensions={"connection": found.connection},
        )  # fmt: skip
        await self.notes.look_at(response)
        try:
            return await response.aread()
        except httpx2.StreamError as error:
            return str(error)

    def _answer(self, request_id: int, status: int, kind: str, content: bytes | str) -> Answer:
        """The answer in a plain body, not an event stream."""
        is_json = kind.startswith("application/json")
        message = None
        if is_json and isinstance(content, bytes):
            message = self.read(content, request_id)
        if status >= httpx2.codes.BAD_REQUEST:
            if not isinstance(message, JSONRPCError) or message.error.code == PARSE_ERROR:
                message = _error(request_id, *self._of_status(status))
            return by_status(message, status, self.session_headers())
        if status == httpx2.codes.ACCEPTED:
            return _error(
                request_id, INVALID_REQUEST, "server answered a request with 202 Accepted"
            )
        if not is_json:
            return _error(request_id, INVALID_REQUEST, f"Unexpected content type: {kind}")
        if isinstance(message, JSONRPCResponse | JSONRPCError):
            return message
        problem = content if isinstance(content, str) else "it is not an answer"
        return _error(request_id, PARSE_ERROR, f"Not read: {problem}")

    def _of_status(self, status: int) -> tuple[int, str]:
        """What the SDK makes of an HTTP status without an answer; callers learn which it is."""
        if status != httpx2.codes.NOT_FOUND:
            return INTERNAL_ERROR, f"Server returned an error response: HTTP {status}"
        if "mcp-session-id" in self.session_headers():
            return INVALID_REQUEST, "Session terminated"
        return METHOD_NOT_FOUND, "Not Found"

    async def _events(self, request_id: int, found: Http1Response) -> Answer:
        """The answer in a stream of events; a stream that ends before it is asked for again."""
        reader = EventReader(max_bytes=self.max_event_bytes)
        try:
            answer = await self._next_answer(request_id, reader, self.notes.paced(found))
        except httpx2.SSEError as error:
            return _error(request_id, CONNECTION_CLOSED, f"SSE stream failed: {error}")
        except httpx2.TransportError:
            log.debug("a stream of events ended", exc_info=True)
            answer = None
        if answer is not None:
            found.leave()
            return answer
        await found.aclose()
        if reader.last_id is None:
            return _error(request_id, CONNECTION_CLOSED, "SSE stream ended without a response")
        return await self._resumed(request_id, reader)

    async def _resumed(self, request_id: int, reader: EventReader) -> Answer:
        failed, answer = 0, None
        while answer is None and failed < _ATTEMPTS:
            await asyncio.sleep(_PAUSE_S if reader.retry_s is None else reader.retry_s)
            headers = {**self.session_headers(), "last-event-id": reader.last_id or ""}
            failed += 1
            try:
                async with sse_within_origin(self.client, self.url, headers=headers) as source:
                    found = source.response.raise_for_status()
                    if found.headers.get("content-type", "").startswith(_EVENTS):
                        failed = 0
                        reader.begin()
                        answer = await self._next_answer(request_id, reader, found.aiter_bytes())
            except httpx2.SSEError as error:
                return _error(request_id, CONNECTION_CLOSED, f"SSE stream failed: {error}")
            except (httpx2.HTTPError, httpx2.StreamError):
                log.debug("a stream of events could not be resumed", exc_info=True)
        return answer or _error(
            request_id, CONNECTION_CLOSED,
            "SSE stream ended and reconnection attempts were exhausted",
        )  # fmt: skip

    async def _next_answer(
        self, request_id: int, reader: EventReader, parts: AsyncIterable[bytes]
    ) -> Answer | None:
        """Read up to the answer; None where the stream ends before it."""
        async for part in parts:
            for data in reader.read(part):
                message = self.read(data, request_id)
                if isinstance(message, JSONRPCResponse | JSONRPCError):
                    return message
                if message is not None:
                    await self.pass_on(message)
        return None


def _head_of(request: httpx2.Request) -> bytes:
    """The head without the length of the body."""
    sent = [one for one in request.headers.raw if one[0].lower() != b"content-length"]
    return head_of(request, sent)


def by_status(answer: JSONRPCError, status: int, headers: Mapping[str, str]) -> JSONRPCError:
    """The answer to a request with these headers, marked where it refuses the session: such a
    request was not done. By its text alone it could be an error of a tool.
    """
    code, message = answer.error.code, answer.error.message
    if (
        status in _REFUSING
        and "mcp-session-id" in headers
        and code in (_SESSION_NOT_FOUND, INVALID_REQUEST, CONNECTION_CLOSED)
        and "session" in message.lower()
    ):
        error = ErrorData(code=code, message=message, data=REFUSED_SESSION)
        return JSONRPCError(jsonrpc="2.0", id=answer.id, error=error)
    return answer


def _error(request_id: int, code: int, message: str) -> JSONRPCError:
    return JSONRPCError(jsonrpc="2.0", id=request_id, error=ErrorData(code=code, message=message))
