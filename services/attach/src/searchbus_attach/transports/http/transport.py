"""A transport of httpx2 for HTTP/1.1, which keeps connections for the next requests.

httpx2.AsyncClient(transport=Http1Transport(max_connections=40))
"""

from __future__ import annotations

import asyncio
import re
import ssl
from collections import deque
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Mapping
from dataclasses import dataclass

import httpx2

from .connection import Http1Connection, connect

_SMALL_BYTES = 64 * 1024
"""A body of at most so many bytes is read with its head."""
_KEPT_S = 4.0
"""How long an unused connection is kept. Many servers close it after 5 s: what is sent at that
moment has no answer, and costs the session."""
_END_S = 1.0
"""For the end of a stream of events after the last one."""
_PORTS = {"http": 80, "https": 443}
_METHODS = {"DELETE", "GET", "PATCH", "POST", "PUT"}
"""Others have responses of another shape."""
_LINE = re.compile(rb"[A-Z]+ [!-~]+ HTTP/1\.1\r\n|[!#-'*+\-.0-9A-Z^-z|~]+: [\t -~\x80-\xff]*\r\n")
_Origin = tuple[str, str, int]


@dataclass(slots=True, eq=False)  # found again by itself: equal fields cost a function each
class _Kept:
    connection: Http1Connection
    origin: _Origin
    since_s: float


class Http1Transport(httpx2.AsyncBaseTransport):
    """Sends requests whose bodies are in memory. A request is never sent twice.

    Args:
        max_connections: at once; further requests wait for one, for their pool timeout.
        on_unreached: called when no connection could be made, with the requests that were sent and
            have no whole response yet.
    """

    def __init__(
        self,
        *,
        max_connections: int,
        on_unreached: Callable[[Collection[httpx2.Request]], None] = lambda _: None,
    ) -> None:
        self._slots = asyncio.Semaphore(max_connections)
        self._on_unreached = on_unreached
        self._busy: dict[Http1Connection, httpx2.Request] = {}
        self._ending: set[Http1Connection] = set()
        self._kept: deque[_Kept] = deque()
        self._tls: ssl.SSLContext | None = None
        self._closed = False
        # Most requests have the URL of the one before, whose parts httpx2 looks up each time.
        self._last: tuple[httpx2.URL | None, _Origin] = None, ("", "", 0)

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """See httpx2.AsyncBaseTransport.

        Raises:
            httpx2.UnsupportedProtocol, httpx2.LocalProtocolError: it cannot be sent.
            httpx2.PoolTimeout, httpx2.ConnectTimeout, httpx2.ConnectError: it was not sent.
            httpx2.WriteTimeout, httpx2.ReadTimeout, httpx2.ReadError, httpx2.RemoteProtocolError:
                it may have been received.
        """
        times = request.extensions.get("timeout", {})
        response = await self.exchange(await _message(request), request, times)
        if response.is_small:
            # Streams cost as much as the rest of httpx2's part.
            content = await response.whole()
            return httpx2.Response(response.status, headers=response.headers, content=content)
        return httpx2.Response(
            response.status, headers=response.headers, stream=response,
            extensions={"connection": response.connection},
        )  # fmt: skip

    async def exchange(
        self, message: bytes, request: httpx2.Request, times: Mapping[str, float | None]
    ) -> Http1Response:
        """Send a message, and wait for the head of its response; the caller closes that.

        Args:
            message: as it is sent.
            request: what it is: says where it goes.
            times: limits in seconds, as `httpx2.Timeout.as_dict` names them.

        Raises:
            httpx2.TransportError: as `handle_async_request`.
        """
        if request.url is not self._last[0]:
            self._last = request.url, _origin(request.url)
        origin = self._last[1]
        await self._take_slot(times.get("pool"))
        try:
            connection = self._reused(origin) or await self._connected(origin, times.get("connect"))
        except BaseException as error:
            self._slots.release()
            if isinstance(error, httpx2.ConnectError | httpx2.ConnectTimeout):
                self._on_unreached(self._busy.values())
            raise
        if self._closed:
            connection.close()
            self._slots.release()
            raise httpx2.LocalProtocolError("the client was closed meanwhile")
        self._busy[connection] = request
        read_s = times.get("read")
        response = Http1Response(self, connection, origin, read_s)
        try:
            await connection.send(message, write_s=times.get("write"), read_s=read_s)
        except BaseException:
            await response.aclose()
            raise
        return response

    async def aclose(self) -> None:
        """Close all connections; those that are being made send nothing."""
        self._closed = True
        kept = (kept.connection for kept in self._kept)
        for connection in (*self._busy, *self._ending, *kept):
            connection.close()
        self._kept.clear()

    def give_back(self, connection: Http1Connection, origin: _Origin) -> None:
        """A response is not read any further: keep its connection, or close it."""
        self._busy.pop(connection, None)
        self._ending.discard(connection)
        if connection.reusable:
            now_s = asyncio.get_running_loop().time()
            self._kept.append(_Kept(connection, origin, now_s))
        else:
            connection.close()
        self._slots.release()

    def await_end(self, connection: Http1Connection, origin: _Origin) -> None:
        """The rest of a response is of no use: give its connection back at its end, which comes in
        a moment.
        """
        if connection.complete or connection.lost:
            self.give_back(connection, origin)
            return
        self._busy.pop(connection, None)
        self._ending.add(connection)
        timer = asyncio.get_running_loop().call_later(_END_S, connection.close)

        def ended() -> None:
            timer.cancel()
            self.give_back(connection, origin)

        connection.on_end = ended

    async def _take_slot(self, timeout_s: float | None) -> None:
        if not self._slots.locked():
            await self._slots.acquire()
            return
        if self._ending:  # whose rest is of no use
            self._ending.pop().close()
        try:
            async with asyncio.timeout(timeout_s):
                await self._slots.acquire()
        except TimeoutError:
            raise httpx2.PoolTimeout("all connections are in use") from None

    def _reused(self, origin: _Origin) -> Http1Connection | None:
        """The kept connection that was used last, if the server has not closed it."""
        oldest_s = asyncio.get_running_loop().time() - _KEPT_S
        while self._kept and self._kept[0].since_s < oldest_s:
            self._kept.popleft().connection.close()
        for kept in [kept for kept in reversed(self._kept) if kept.origin == origin]:
            self._kept.remove(kept)
            if not kept.connection.ended:
                return kept.connection
            kept.connection.close()
        return None

    async def _connected(self, origin: _Origin, timeout_s: float | None) -> Http1Connection:
        scheme, host, port = origin
        if scheme == "https" and self._tls is None:
            self._tls = httpx2.create_ssl_context()  # takes 20 ms
            self._tls.set_alpn_protocols(["http/1.1"])
        try:
            async with asyncio.timeout(timeout_s):
                return await connect(host, port, self._tls if scheme == "https" else None)
        except TimeoutError:
            raise httpx2.ConnectTimeout("the server does not accept the connection") from None
        except (OSError, UnicodeError) as error:
            raise httpx2.ConnectError(str(error)) from error


@dataclass(eq=False)
class Http1Response(httpx2.AsyncByteStream):
    """A response, whose body is not read yet; closing it gives its connection back."""

    transport: Http1Transport
    connection: Http1Connection
    origin: _Origin
    read_s: float | None

    def __post_init__(self) -> None:
        self._closed = False

    @property
    def status(self) -> int:
        """Its status."""
        return self.connection.status

    @property
    def headers(self) -> list[tuple[bytes, bytes]]:
        """Its headers."""
        return self.connection.headers

    @property
    def is_small(self) -> bool:
        """Whether the body is read at once: its length is known, and httpx2 would not decode it."""
        body_bytes = self.connection.body_bytes
        if (body_bytes is None and not self.connection.complete) or (
            body_bytes or 0
        ) > _SMALL_BYTES:
            return False
        return all(name.lower() != b"content-encoding" for name, _ in self.headers)

    async def whole(self) -> bytes:
        """The body, of a small one; closes the response."""
        content = b""
        try:
            while data := await self.connection.receive(read_s=self.read_s):
                content += data
        finally:
            await self.aclose()
        return content

    async def __aiter__(self) -> AsyncIterator[bytes]:
        while data := await self.connection.receive(read_s=self.read_s):
            yield data

    async def aclose(self) -> None:
        """Give the connection back; one with more of the response to come is closed."""
        if not self._closed:
            self._closed = True
            self.transport.give_back(self.connection, self.origin)

    def leave(self) -> None:
        """The same once the end of the response has come."""
        if not self._closed:
            self._closed = True
            self.transport.await_end(self.connection, self.origin)


def _origin(url: httpx2.URL) -> _Origin:
    if url.scheme not in _PORTS:
        raise httpx2.UnsupportedProtocol(f"{url.scheme} is not http or https")
    return url.scheme, url.raw_host.decode("ascii"), url.port or _PORTS[url.scheme]


async def _message(request: httpx2.Request) -> bytes:
    """The request as it is sent."""
    try:
        content = request.content
    except httpx2.RequestNotRead:  # one that follows a redirect
        if "transfer-encoding" in request.headers:
            raise httpx2.UnsupportedProtocol("bodies of unknown length are not sent") from None
        content = await request.aread()
    if request.method not in _METHODS:
        raise httpx2.UnsupportedProtocol(f"requests with {request.method} are not sent")
    return b"%b\r\n%b" % (head_of(request, request.headers.raw), content)


def head_of(request: httpx2.Request, headers: Iterable[tuple[bytes, bytes]]) -> bytes:
    """The head without its empty line; raises httpx2.LocalProtocolError."""
    lines = [b"%b %b HTTP/1.1\r\n" % (request.method.encode(), request.url.raw_path)]
    lines += [b"%b: %b\r\n" % header for header in headers]
    if not all(map(_LINE.fullmatch, lines)):
        raise httpx2.LocalProtocolError("a header or the path has characters that are not allowed")
    return b"".join(lines)
