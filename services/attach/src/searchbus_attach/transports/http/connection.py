"""One HTTP/1.1 connection: a request, then its response, then the next request.

connection = await connect("127.0.0.1", 8000, None)
await connection.send(b"GET / HTTP/1.1\\r\\nHost: x.example\\r\\n\\r\\n", write_s=10, read_s=30)
while data := await connection.receive(read_s=30):
    ...
if not connection.reusable:
    connection.close()
"""

from __future__ import annotations

import asyncio
import select
import socket
import ssl
from collections.abc import Callable
from typing import Any

import httptools
import httpx2

MAX_SILENT_BYTES = 100 * 1024
"""What a server may send without any of the body: in a head, or between two chunks."""
_MAX_WAITING_BYTES = 256 * 1024
"""Bytes of a body that nobody has received yet; reading stops above it."""
_SWITCHING_PROTOCOLS, _OK = 101, 200


class Http1Connection(asyncio.Protocol):
    """A connection, which `connect` makes; for one task at a time.

    Attributes:
        status, headers: what the response begins with.
        complete: whether all of the response is here.
        body_bytes: the length of its body, None where it is not known before its end.
        parts: chunks of the body that have come, each of which costs work whatever its length.
        on_end: called once, when the response is complete or the connection is lost.
    """

    on_end: Callable[[], None] | None = None

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport
        self._waiter: asyncio.Future[None] | None = None
        self._error: httpx2.TransportError | None = None
        self._writable = self._reading = True
        self._begin()
        self.complete = True

    def _begin(self) -> None:
        """Expect a response."""
        self.status = 0
        self.headers: list[tuple[bytes, bytes]] = []
        self._parser = httptools.HttpResponseParser(self)
        self._body: list[bytes] = []
        self._waiting_bytes = self._silent_bytes = self.parts = 0
        self._has_head = self._has_length = self.complete = self._kept_alive = False
        self.body_bytes: int | None = None

    @property
    def lost(self) -> bool:
        """Whether nothing more comes from it."""
        return self._error is not None

    @property
    def reusable(self) -> bool:
        """Whether it can send another request: the response ended, and the server stays."""
        return self.complete and self._kept_alive and self._reading and not self.lost

    @property
    def ended(self) -> bool:
        """Whether the server closed it, or sent what nobody asked for, since the response."""
        if self._error is not None:
            return True
        # What has come since the loop looked last.
        poll = select.poll()
        poll.register(self._transport.get_extra_info("socket"), select.POLLIN)
        return bool(poll.poll(0))

    async def send(self, request: bytes, *, write_s: float | None, read_s: float | None) -> None:
        """Send a request, and wait for the head of its response.

        Args:
            write_s: for the system to take it; None: no limit.
            read_s: until the server sends something; None: no limit.

        Raises:
            httpx2.WriteTimeout, httpx2.ReadTimeout: not in time.
            httpx2.ReadError, httpx2.RemoteProtocolError: the connection ended, or what came is not
                a response of HTTP/1.1.
        """
        if self._error is not None:
            raise self._error
        self._begin()
        self._transport.write(request)
        while not self._has_head:
            if self._error is not None:
                raise self._error
            if self._writable:
                await self._change(read_s, httpx2.ReadTimeout)
            else:
                await self._change(write_s, httpx2.WriteTimeout)

    async def receive(self, *, read_s: float | None) -> bytes:
        """The next part of the body; empty at its end.

        Raises:
            httpx2.ReadTimeout, httpx2.ReadError, httpx2.RemoteProtocolError: as `send`.
        """
        while not self._body:
            if self.complete:
                return b""
            if self._error is not None:
                raise self._error
            await self._change(read_s, httpx2.ReadTimeout)
        data = b"".join(self._body)
        self._body.clear()
        self._waiting_bytes = 0
        if not self._reading:
            self._reading = True
            self._transport.resume_reading()
        return data

    def close(self) -> None:
        """Close it at once; what was not received is given back."""
        self._body.clear()
        self._transport.abort()

    async def _change(self, timeout_s: float | None, late: type[httpx2.TimeoutException]) -> None:
        """Wait until something happens; raises `late` where nothing does in time."""
        waiter = self._waiter = self._loop.create_future()
        timer = None
        if timeout_s is not None:
            timer = self._loop.call_later(timeout_s, self._give_up, late)
        try:
            await waiter
        finally:
            self._waiter = None
            if timer is not None:
                timer.cancel()

    def _give_up(self, late: type[httpx2.TimeoutException]) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_exception(late("not in time"))

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def _note_end(self) -> None:
        on_end, self.on_end = self.on_end, None
        if on_end is not None:
            on_end()

    def _end(self, error: httpx2.TransportError) -> None:
        """It is of no more use; the first reason counts."""
        self._error = self._error or error
        self._transport.abort()
        self._wake()

    # asyncio.Protocol

    def connection_made(self, transport: Any) -> None:
        """See asyncio.Protocol."""
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        """See asyncio.Protocol."""
        if self.complete:
            self._end(httpx2.RemoteProtocolError("the server sent more than its response"))
            return
        self._silent_bytes += len(data)
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            self._end(httpx2.RemoteProtocolError(f"the response is not HTTP/1.1: {error}"))
            return
        if self._silent_bytes > MAX_SILENT_BYTES and not self.complete:
            self._end(httpx2.RemoteProtocolError("the head of the response is too large"))
            return
        if self._waiting_bytes > _MAX_WAITING_BYTES and self._reading:
            self._reading = False
            self._transport.pause_reading()
        self._wake()

    def connection_lost(self, error: Exception | None) -> None:
        """See asyncio.Protocol."""
        self._note_end()
        if error is not None:
            self._end(httpx2.ReadError(str(error)))
            return
        if self._has_head and not self._has_length and self._error is None:
            self.complete = True  # its end is that of the body
        self._end(httpx2.RemoteProtocolError("the server closed the connection"))

    def pause_writing(self) -> None:
        """See asyncio.Protocol."""
        self._writable = False

    def resume_writing(self) -> None:
        """See asyncio.Protocol."""
        self._writable = True
        self._wake()

    # httptools.HTTPProtocol

    def on_message_begin(self) -> None:
        """See httptools.HTTPProtocol."""
        if self.complete:
            raise ValueError("a second response")

    def on_header(self, name: bytes, value: bytes) -> None:
        """See httptools.HTTPProtocol."""
        if self._has_head:
            return  # a trailer
        self.headers.append((name, value.rstrip(b" \t")))
        match name.lower():
            case b"content-length":
                self._has_length, self.body_bytes = True, int(value)
            case b"transfer-encoding":
                self._has_length = True

    def on_headers_complete(self) -> None:
        """See httptools.HTTPProtocol."""
        self.status = self._parser.get_status_code()
        if self.status == _SWITCHING_PROTOCOLS:
            raise ValueError("another protocol")
        self._has_head = self.status >= _OK

    def on_body(self, data: bytes) -> None:
        """See httptools.HTTPProtocol."""
        self._silent_bytes = 0
        self._waiting_bytes += len(data)
        self._body.append(data)
        self.parts += 1

    def on_message_complete(self) -> None:
        """See httptools.HTTPProtocol."""
        if self._has_head:
            self.complete, self._kept_alive = True, self._parser.should_keep_alive()
            self._note_end()
        else:  # 1xx: the response is still to come, and says its own length
            self.headers = []
            self._has_length, self.body_bytes = False, None


_NEXT_AFTER_S = 0.25
"""Until the next address is tried beside those before (RFC 8305, section 8)."""


async def connect(host: str, port: int, tls: ssl.SSLContext | None) -> Http1Connection:
    """The first connection that is made, with TLS after its handshake.

    Raises:
        OSError: the name has no address, or no address accepts; the reason of the first one.
        UnicodeError: the name cannot be one of a host.
    """
    addresses = await _addresses(host, port)
    if len(addresses) == 1:
        return await _attempt(addresses[0], host, port, tls)
    waiting = list(reversed(addresses))
    running: set[asyncio.Task[Http1Connection]] = set()
    lost: list[asyncio.Task[Http1Connection]] = []
    try:
        while waiting or running:
            if waiting:
                attempt = _attempt(waiting.pop(), host, port, tls)
                lost.append(asyncio.get_running_loop().create_task(attempt))
                running.add(lost[-1])
            done, running = await asyncio.wait(
                running,
                timeout=_NEXT_AFTER_S if waiting else None,
                return_when=asyncio.FIRST_COMPLETED,
            )
            for task in done:
                if task.exception() is None:
                    lost.remove(task)
                    return task.result()
        return lost[0].result()
    finally:
        for task in lost:
            task.cancel()
            task.add_done_callback(_close)


async def _addresses(host: str, port: int) -> list[str]:
    """In the order of the system, but the second is one of the other family."""
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    if not found:
        raise OSError("the name has no address")
    other = next((at for at, entry in enumerate(found) if entry[0] != found[0][0]), 0)
    found.insert(min(1, other), found.pop(other))
    return [str(address[0]) for *_, address in found]


async def _attempt(
    address: str, host: str, port: int, tls: ssl.SSLContext | None
) -> Http1Connection:
    _, connection = await asyncio.get_running_loop().create_connection(
        Http1Connection, address, port, ssl=tls, server_hostname=None if tls is None else host
    )
    return connection


def _close(task: asyncio.Task[Http1Connection]) -> None:
    """Close what was connected too late; takes note of errors, which asyncio logs otherwise."""
    if not task.cancelled() and task.exception() is None:
        task.result().close()
