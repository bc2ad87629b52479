"""The load reads plain and chunked responses, and fails on a wrong one."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest

from .load import cpu_s, send

Serve = Callable[[bytes], Awaitable[tuple[int, list[bytes]]]]
JSON = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"
STREAM = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n7\r\nhello\r\n\r\n0\r\n\r\n"


@pytest.fixture
async def serve() -> AsyncIterator[Serve]:
    """Answer every request with fixed bytes, in two pieces; returns the port and the requests."""
    servers = []

    async def start(answer: bytes) -> tuple[int, list[bytes]]:
        heads: list[bytes] = []

        async def respond(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            while head := await reader.read(65536):
                heads.append(head)
                writer.write(answer[:-4])
                await writer.drain()
                await asyncio.sleep(0)
                writer.write(answer[-4:])
            writer.close()

        server = await asyncio.start_server(respond, "127.0.0.1", 0)
        servers.append(server)
        return server.sockets[0].getsockname()[1], heads

    yield start
    for server in servers:
        server.close()


def spec(port: int, **more: object) -> dict[str, object]:
    return {"port": port, "path": "/mcp", "headers": {"X-A": "b"}, "body": {"id": 1},
            "expected": "hello", "in_flight": 2, "count": 3, **more}  # fmt: skip


@pytest.mark.parametrize("answer", [JSON, STREAM])
async def test_every_connection_sends_its_count(serve: Serve, answer: bytes) -> None:
    port, heads = await serve(answer)
    found = await send(spec(port))
    assert found["requests"] == 6 == len(heads)
    assert 0 < found["p50_s"] <= found["p99_s"]
    assert heads[0].startswith(b"POST /mcp HTTP/1.1\r\n")
    assert heads[0].endswith(b'Content-Length: 8\r\n\r\n{"id":1}')


async def test_each_connection_has_its_session(serve: Serve) -> None:
    port, heads = await serve(JSON)
    await send(spec(port, sessions=["one", "two"]))
    for session in (b"one", b"two"):
        assert sum(b"Mcp-Session-Id: " + session in head for head in heads) == 3


async def test_each_request_has_its_number(serve: Serve) -> None:
    port, heads = await serve(JSON)
    await send(spec(port, body={"query": "x 0000"}, numbered="0000"))
    assert {head[-6:-2] for head in heads} == {b"%04d" % number for number in range(6)}


async def test_paced_requests_are_not_sent_earlier(serve: Serve) -> None:
    port, heads = await serve(JSON)
    started_s = time.perf_counter()
    await send(spec(port, in_flight=1, count=4, every_s=0.1))
    assert len(heads) == 4
    assert time.perf_counter() - started_s >= 0.3


async def test_a_wrong_response_fails(serve: Serve) -> None:
    port, _ = await serve(JSON.replace(b"hello", b"sorry"))
    with pytest.raises(RuntimeError, match="the load failed"):
        await send(spec(port))


def test_cpu_time_of_a_process_grows() -> None:
    before_s = cpu_s([os.getpid()])
    sum(range(1_000_000))
    assert cpu_s([os.getpid()]) > before_s
