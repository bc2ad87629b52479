"""The TCP connection of nats-py's client, read and written with less work a message.

Whole messages of `deliver_directly` are handed over as they are received. All else, and what
follows it until nats-py's read loop has caught up, goes into its stream, as do those under TLS.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Container, Mapping
from typing import Any

from nats.aio.transport import TcpTransport

from ..transport import Message

_VERSION = b"NATS/1.0\r\n"
_MAX_LINE_BYTES = 4096


class DirectTransport(TcpTransport):
    """nats-py's transport, whose data is offered to `take` first.

    Args:
        take: returns the rest of the received data, which nats-py must read.
    """

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
        reader = asyncio.StreamReader(limit=buffer_size, loop=loop)
        protocol = _Protocol(reader, self._take)
        async with asyncio.timeout(connect_timeout):
            transport, _ = await loop.create_connection(lambda: protocol, uri.hostname, uri.port)
        self._protocol = protocol
        self._bare_io_reader = self._io_reader = reader
        self._bare_io_writer = self._io_writer = asyncio.StreamWriter(
            transport, protocol, reader, loop
        )

    async def connect_tls(self, *fields: Any, **options: Any) -> None:
        """See nats-py's Transport."""
        await super().connect_tls(*fields, **options)
        self._protocol = None

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

    def _count(self, data: bytes) -> None:
        if self._protocol is not None:
            self._protocol.unread_bytes -= len(data)


class _Protocol(asyncio.StreamReaderProtocol):
    """Feeds the stream with what nobody has taken.

    Attributes:
        unread_bytes: in the stream.
        paused: the server reads slower than this client writes.
    """

    def __init__(self, reader: asyncio.StreamReader, take: Callable[[bytes], bytes]) -> None:
        super().__init__(reader)
        self._take = take
        self.unread_bytes = 0
        self.paused = False

    def data_received(self, data: bytes) -> None:
        """See asyncio.Protocol."""
        if not self.unread_bytes:
            data = self._take(data)
        if data:
            self.unread_bytes += len(data)
            super().data_received(data)

    def pause_writing(self) -> None:
        """See asyncio.BaseProtocol."""
        self.paused = True
        super().pause_writing()

    def resume_writing(self) -> None:
        """See asyncio.BaseProtocol."""
        self.paused = False
        super().resume_writing()


def read_messages(
    data: bytes, subscriptions: Container[int]
) -> tuple[list[tuple[int, Message]], bytes]:
    """The whole messages at the start of `data` with the ids of their subscriptions, and the rest.

    Args:
        data: of NATS's client protocol, from the start of a line on.
        subscriptions: the ids of those whose messages are read; any other one ends the reading.
    """
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
    """The headers of a message as the bus writes them, at least one; None for any other
    block, which is left to nats-py.
    """
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
