"""Upstreams that do harm, on raw sockets: servers of frameworks would not send such answers.

async with hostile() as address:        # 127.0.0.1:40123
    GET /bomb/…     200 MB of zeros in gzip
    GET /drip/…     a byte every 50 ms, without end
    GET /headers/…  headers without end
    GET /slow/…     a small page after a second
    GET /page/…     a small page at once
"""

from __future__ import annotations

import asyncio
import gzip
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

BOMB_BYTES = 200 * 10**6


@asynccontextmanager
async def hostile() -> AsyncIterator[str]:
    """Serve; yields address and port."""
    bomb = await asyncio.to_thread(gzip.compress, bytes(BOMB_BYTES), 6)

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
            await _answer(head.split(" ")[1], writer, bomb)
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    host, port = server.sockets[0].getsockname()[:2]
    try:
        yield f"{host}:{port}"
    finally:
        server.close()


async def _answer(path: str, writer: asyncio.StreamWriter, bomb: bytes) -> None:
    kind = path.split("/")[1]
    start = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n"
    if kind == "bomb":
        length = b"Content-Encoding: gzip\r\nContent-Length: %d\r\n\r\n" % len(bomb)
        writer.write(start + length + bomb)
        await writer.drain()
    elif kind == "drip":
        writer.write(start + b"Content-Length: 1000000\r\n\r\n<html><body>")
        while True:
            writer.write(b"x")
            await writer.drain()
            await asyncio.sleep(0.05)
    elif kind == "headers":
        writer.write(b"HTTP/1.1 200 OK\r\n")
        number = 0
        while True:
            number += 1
            writer.write(b"X-%d: %s\r\n" % (number, b"y" * 1000))
            await writer.drain()
            await asyncio.sleep(0.01)
    else:
        if kind == "slow":
            await asyncio.sleep(1)
        body = b"<html><body><article><p>" + b"Whales sing. " * 50 + b"</p></article></body></html>"
        writer.write(start + b"Content-Length: %d\r\n\r\n" % len(body) + body)
        await writer.drain()
