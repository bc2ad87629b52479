"""NATS's client protocol without nats-py's stream: whole messages are read and written at once, and
handed over as they are received (see overrides.py)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Container, Mapping
from typing import Any

from nats.aio.transport import TcpTransport

from ..transport import Message

_VERSION = b"NATS/1.0\r\n"
_MAX_LINE_BYTES = 4096


def read_messages(
    data: bytes, subscriptions: Container[int]
) -> tuple[list[tuple[int, Message]], bytes]:
    """The whole messages at the start of `data` (NATS's client protocol, from the start of a line)
    with the ids of their subscriptions, and the rest. A message of another subscription ends the
    reading."""
    found: list[tuple[int, Message]] = []
    start = 0
    while start < len(data):
        if data.startswith(b"MSG ", start):
            headers = 0
        elif data.startswith(b"HMSG ", start):
            headers = 1
        else:
            break
        line_end = data.find(b"\r\n", start, start + _MAX_LINE_BYTES)
        # MSG subject id [reply] size; HMSG subject id [reply] header-size size
        fields = data[start:line_end].split() if line_end > 0 else []
        has_reply = len(fields) - headers == 5
        numbers = [fields[2], *fields[3 + has_reply :]] if len(fields) >= 4 + headers else []
        if len(numbers) != 2 + headers or not all(map(bytes.isdigit, numbers)):
            break
        sid, *sizes = map(int, numbers)
        begin, end = line_end + 2, line_end + 2 + sizes[-1]
        if sid not in subscriptions or end + 2 > len(data):
            break
        block: Mapping[str, str] | None = {}
        if headers:
            block = usual_headers(data[begin : begin + sizes[0]])
            begin += sizes[0]
        if block is None or begin > end:
            break
        reply = fields[3].decode("utf-8", "replace") if has_reply else ""
        subject = fields[1].decode("utf-8", "replace")
        found.append((sid, Message(subject, data[begin:end], reply, block)))
        start = end + 2
    return found, data[start:] if start else data


def usual_headers(block: bytes) -> dict[str, str] | None:
    """The headers as the bus writes them, at least one; None: left to nats-py."""
    if not block.startswith(_VERSION) or not block.endswith(b"\r\n\r\n") or not block.isascii():
        return None
    found = {}
    for line in block[len(_VERSION) : -4].decode("ascii").split("\r\n"):
        name, mark, value = line.partition(": ")
        # Printable: no white space but blanks.
        if not mark or not line.isprintable() or " " in name or ":" in name:
            return None
        found[name] = value.strip()
    return found


def is_plain(subject: str) -> bool:
    """Whether a subject has neither white space nor line breaks, which would end it."""
    return subject.isprintable() and " " not in subject


def publish_command(
    subject: str, reply: str, payload: bytes, headers: Mapping[str, str] | None
) -> bytes | None:
    """PUB or HPUB of NATS's client protocol; None where a header holds a line break."""
    if not headers:
        return b"PUB %s %s %d\r\n%s\r\n" % (
            subject.encode(), reply.encode(), len(payload), payload,
        )  # fmt: skip
    # Added, not formatted: names may be members of an Enum of strings.
    lines = "\r\n".join([name + ": " + value for name, value in headers.items()])
    if lines.count("\n") >= len(headers) or lines.count("\r") >= len(headers):
        return None
    block = f"NATS/1.0\r\n{lines}\r\n\r\n".encode()
    return b"HPUB %s %s %d %d\r\n%s%s\r\n" % (
        subject.encode(), reply.encode(), len(block), len(block) + len(payload), block, payload,
    )  # fmt: skip


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
