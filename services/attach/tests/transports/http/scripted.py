"""A server that answers with the bytes that a test gives it, and certificates for it."""

from __future__ import annotations

import asyncio
import socket
import ssl
import struct
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from searchbus_testing import until
from searchbus_testing.certificates import self_signed

Answer = bytes | Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


@dataclass
class Scripted:
    """The server and what it saw.

    Attributes:
        answers: to the requests in turn; the last one is repeated.
        requests: head and body of each.
        opened, closed: connections.
    """

    url: str = ""
    answers: list[Answer] = field(default_factory=lambda: [OK])
    requests: list[bytes] = field(default_factory=list)
    opened: int = 0
    closed: int = 0

    async def until_closed(self, count: int) -> None:
        """Until so many connections have ended."""
        await until(lambda: self.closed == count)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection."""
        self.opened += 1
        try:
            while not writer.is_closing():
                head = await reader.readuntil(b"\r\n\r\n")
                answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
                if isinstance(answer, bytes):
                    self.requests.append(head + await _body(reader, head))
                    writer.write(answer)
                    await writer.drain()
                else:
                    self.requests.append(head)
                    await answer(reader, writer)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass  # the client has closed it
        except asyncio.CancelledError:
            writer.transport.abort()
            raise
        finally:
            writer.close()
            with suppress(ConnectionError):
                await writer.wait_closed()
            self.closed += 1


async def _body(reader: asyncio.StreamReader, head: bytes) -> bytes:
    for line in head.lower().split(b"\r\n"):
        if line.startswith(b"content-length:"):
            return await reader.readexactly(int(line.partition(b":")[2]))
    return b""


@asynccontextmanager
async def scripted(tls: ssl.SSLContext | None = None) -> AsyncIterator[Scripted]:
    """Serve on a free port of 127.0.0.1."""
    found = Scripted()
    tasks: set[asyncio.Task[None]] = set()

    def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.get_running_loop().create_task(found.serve(reader, writer))
        tasks.add(task)
        task.add_done_callback(tasks.discard)

    server = await asyncio.start_server(accept, "127.0.0.1", 0, ssl=tls)
    port = server.sockets[0].getsockname()[1]
    found.url = f"http{'s' if tls else ''}://127.0.0.1:{port}/mcp"
    try:
        yield found
    finally:
        server.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def reset(writer: asyncio.StreamWriter) -> None:
    """End a connection by a reset."""
    raw = writer.get_extra_info("socket")
    raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()


def certified(folder: Path) -> tuple[ssl.SSLContext, Path]:
    """What a server on 127.0.0.1 needs for TLS, and the file of the authority that signed it."""
    certificate, key = self_signed(folder)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    return context, certificate


async def closes(_, writer: asyncio.StreamWriter) -> None:
    writer.close()


async def resets(_, writer: asyncio.StreamWriter) -> None:
    reset(writer)


async def waits(reader: asyncio.StreamReader, _) -> None:
    """Until the client closes the connection."""
    await reader.read()


async def does_not_read(*_) -> None:
    await asyncio.Event().wait()


def parts(*data: bytes, end: Callable = closes):
    """An answer in parts, each of which the client has time to see by itself."""

    async def answer(reader, writer):
        for part in data:
            writer.write(part)
            await writer.drain()
            await asyncio.sleep(0.01)
        await end(reader, writer)

    return answer
