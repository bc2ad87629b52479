"""nats-py's transport, which hands over whole messages as they are received (see overrides.py)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from nats.aio.transport import TcpTransport


class DirectTransport(TcpTransport):
    """nats-py's transport; received data goes to `take` first, which returns the rest for it."""

    def __init__(self, take: Callable[[bytes], bytes]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._take = take
        self._protocol: _Protocol | None = None

    @property
    def ready(self) -> bool:
        """Whether what is written goes to the socket, and does not wait for a slow server."""
        return self._protocol is not None and not self._protocol.paused

    async def connect(self, uri: Any, buffer_size: int, connect_timeout: int) -> None:
        """See nats-py's Transport."""
        loop = asyncio.get_running_loop()
        protocol = _Protocol(buffer_size, self._take, tls=False)
        async with asyncio.timeout(connect_timeout):
            transport, _ = await loop.create_connection(lambda: protocol, uri.hostname, uri.port)
        self._use(transport, protocol)
        self._bare_io_reader, self._bare_io_writer = self._io_reader, self._io_writer

    async def connect_tls(
        self, uri: Any, ssl_context: Any, buffer_size: int, connect_timeout: int
    ) -> None:
        """See nats-py's Transport."""
        assert self._io_writer is not None  # by `connect`
        protocol = _Protocol(buffer_size, self._take, tls=True)
        name = uri if isinstance(uri, str) else uri.hostname
        async with asyncio.timeout(connect_timeout):
            transport = await asyncio.get_running_loop().start_tls(
                self._io_writer.transport, protocol, ssl_context, server_hostname=name
            )
        assert transport is not None
        protocol.reader.set_transport(transport)
        self._use(transport, protocol)

    def _use(self, transport: Any, protocol: _Protocol) -> None:
        self._protocol, self._io_reader = protocol, protocol.reader
        loop = asyncio.get_running_loop()
        self._io_writer = asyncio.StreamWriter(transport, protocol, protocol.reader, loop)

    async def read(self, buffer_size: int) -> bytes:
        """See nats-py's Transport."""
        data: bytes = await super().read(buffer_size)
        self._count(data)
        return data

    async def readline(self) -> bytes:
        """See nats-py's Transport."""
        data: bytes = await super().readline()  # type: ignore[no-untyped-call]
        self._count(data)
        return data

    @property
    def certificate(self) -> Any:
        """The server's, as `SSLSocket.getpeercert` returns it; `None` without TLS."""
        return self._io_writer.get_extra_info("peercert") if self._io_writer is not None else None

    def abort(self) -> None:
        """Give up the connection with what was not sent yet."""
        if self._io_writer is not None:
            self._io_writer.transport.abort()

    def _count(self, data: bytes) -> None:
        if self._protocol is not None:
            self._protocol.unread_bytes -= len(data)


class _Protocol(asyncio.StreamReaderProtocol):
    """Feeds the stream with what nobody has taken; `paused`: the server reads too slowly."""

    def __init__(self, limit_bytes: int, take: Callable[[bytes], bytes], *, tls: bool) -> None:
        self.reader = asyncio.StreamReader(limit=limit_bytes, loop=asyncio.get_running_loop())
        super().__init__(self.reader)
        self._take = take
        self._tls = tls
        self.unread_bytes = 0
        self.paused = False

    def data_received(self, data: bytes) -> None:
        if not self.unread_bytes:
            data = self._take(data)
        if data:
            self.unread_bytes += len(data)
            super().data_received(data)

    def eof_received(self) -> bool:
        """See asyncio.Protocol; a connection by TLS cannot stay half open."""
        return bool(super().eof_received()) and not self._tls

    def pause_writing(self) -> None:
        self.paused = True
        super().pause_writing()

    def resume_writing(self) -> None:
        self.paused = False
        super().resume_writing()
