"""The only way of a Chromium to the network: a SOCKS5 proxy on loopback, for one page.

RFC 1928, CONNECT and no authentication. Chromium leaves names to a SOCKS5 proxy and sends every
connection through it, whatever the scheme, so one guard sees them all: it resolves the name, checks
each address and the port, and connects to a checked one. TLS is between Chromium and the site.
"""

from __future__ import annotations

import asyncio
import ipaddress
import logging
from asyncio import StreamReader, StreamWriter
from typing import Self

import httpcore

from searchbus_upstream import GuardedBackend

log = logging.getLogger("searchbus.browser")

_CONNECT_TIMEOUT_S = 10.0
_PART_BYTES = 64 * 1024
_VERSION, _CONNECT = 5, 1
_IPV4, _NAME, _IPV6 = 1, 3, 4
_DONE, _NOT_ALLOWED, _UNREACHABLE = 0, 2, 4


class PageProxy:
    """Use as an asynchronous context manager.

    Args:
        max_bytes: both ways, of all connections together; after these every connection ends.
        max_connections: in all.
    """

    def __init__(self, guard: GuardedBackend, *, max_bytes: int, max_connections: int) -> None:
        self._guard = guard
        self._left_bytes = max_bytes
        self._left_connections = max_connections
        self._tasks: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        self.port: int = self._server.sockets[0].getsockname()[1]
        """On 127.0.0.1."""
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    @property
    def spent(self) -> bool:
        """Whether a limit was reached."""
        return self._left_bytes <= 0 or self._left_connections < 0

    async def _accept(self, reader: StreamReader, writer: StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            await self._serve(reader, writer)
        except (OSError, asyncio.IncompleteReadError, httpcore.NetworkError):
            pass  # one side closed the connection: Chromium reports it to the page
        finally:
            self._tasks.discard(task)
            writer.close()

    async def _serve(self, reader: StreamReader, writer: StreamWriter) -> None:
        _, methods = await reader.readexactly(2)
        await reader.readexactly(methods)
        writer.write(bytes([_VERSION, 0]))
        version, command, _, kind = await reader.readexactly(4)
        host = await _host(reader, kind)
        port = int.from_bytes(await reader.readexactly(2))
        self._left_connections -= 1
        if (version, command) != (_VERSION, _CONNECT) or not host or self.spent:
            return await _reply(writer, _NOT_ALLOWED)
        try:
            stream = await self._guard.connect_tcp(host, port, timeout=_CONNECT_TIMEOUT_S)
        except (httpcore.ConnectError, httpcore.ConnectTimeout) as error:
            log.info("a page connection to %s %d refused: %s", host, port, error)
            return await _reply(writer, _UNREACHABLE)
        try:
            await _reply(writer, _DONE)
            up = asyncio.create_task(self._upwards(reader, stream))
            try:
                await self._downwards(stream, writer)
            finally:
                up.cancel()
                await asyncio.gather(up, return_exceptions=True)
        finally:
            await stream.aclose()
        return None

    async def _upwards(self, reader: StreamReader, stream: httpcore.AsyncNetworkStream) -> None:
        while (part := await reader.read(_PART_BYTES)) and self._counts(part):
            await stream.write(part)
        await stream.aclose()

    async def _downwards(self, stream: httpcore.AsyncNetworkStream, writer: StreamWriter) -> None:
        while (part := await stream.read(_PART_BYTES)) and self._counts(part):
            writer.write(part)
            await writer.drain()

    def _counts(self, part: bytes) -> bool:
        self._left_bytes -= len(part)
        return self._left_bytes > 0


async def _host(reader: StreamReader, kind: int) -> str:
    """The host of a request; empty where it is none."""
    if kind == _NAME:
        (length,) = await reader.readexactly(1)
        return (await reader.readexactly(length)).decode("ascii", "replace")
    sizes = {_IPV4: 4, _IPV6: 16}
    if kind not in sizes:
        return ""
    return str(ipaddress.ip_address(await reader.readexactly(sizes[kind])))


async def _reply(writer: StreamWriter, code: int) -> None:
    writer.write(bytes([_VERSION, code, 0, _IPV4, 0, 0, 0, 0, 0, 0]))
    await writer.drain()
