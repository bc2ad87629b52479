"""Clients that send slowly, against the edge's own process: descriptors and memory come back."""

from __future__ import annotations

import asyncio
import contextlib
import resource
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx
import psutil
import pytest

from searchbus_testing import until

TRICKLING = 1500
BODIES = 60
BODY_BYTES = 3 * 2**20
LEFT_BYTES = 24 * 2**20
"""The allocator's share; 60 bodies that stayed would be 180 MiB."""
HEAD = (
    b"POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
    b"Accept: application/json, text/event-stream\r\n"
)


@pytest.fixture(scope="module")
def edge(start_stack, tmp_path_factory):
    """The stack, and the process of its edge."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < 4 * TRICKLING:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 4 * TRICKLING), hard))
    stack = start_stack(
        tmp_path_factory.mktemp("slow"), "--fake-upstreams", SEARCHBUS_BODY_TIMEOUT_S="5"
    )
    pid = stack.state["processes"]["edge"]
    return stack, psutil.Process(pid)


@asynccontextmanager
async def connections(port: int, count: int) -> AsyncIterator[list[asyncio.StreamWriter]]:
    """Open connections; those that the server refuses or closes count as well."""
    opened: list[asyncio.StreamWriter] = []
    try:
        for _ in range(count):
            opened.append((await asyncio.open_connection("127.0.0.1", port))[1])
        yield opened
    finally:
        for writer in opened:
            writer.close()


def port_of(stack) -> int:
    return int(stack.url.rpartition(":")[2])


async def ping(stack) -> int:
    async with httpx.AsyncClient(timeout=60) as http:
        return (await http.get(f"{stack.url}/healthz")).status_code


@pytest.mark.slow
async def test_trickling_connections_do_not_stay(edge):
    """A byte a second each: they are closed by the deadline of the head, and others are served."""
    stack, process = edge
    before = process.num_fds()

    async def trickle(writers: list[asyncio.StreamWriter]) -> None:
        for writer in writers:
            writer.write(b"POST /mcp HTTP/1.1\r\nX-A: ")
        while True:
            for writer in writers:
                with contextlib.suppress(OSError):
                    writer.write(b"a")
            await asyncio.sleep(1)

    async with connections(port_of(stack), TRICKLING) as writers:
        task = asyncio.create_task(trickle(writers))
        try:
            await until(lambda: process.num_fds() > before + 500)
            await until(lambda: process.num_fds() <= before + 8, timeout_s=300)
            assert await ping(stack) == 200
        finally:
            task.cancel()
    assert process.is_running()


@pytest.mark.slow
async def test_unfinished_bodies_do_not_stay_in_memory(edge):
    """Sixty of 3 MiB, each without its last byte."""
    stack, process = edge
    await ping(stack)
    before, descriptors = process.memory_info().rss, process.num_fds()
    async with connections(port_of(stack), BODIES) as writers:
        body = b" " * (BODY_BYTES - 1)
        for writer in writers:
            writer.write(HEAD + b"Content-Length: %d\r\n\r\n" % BODY_BYTES)

        async def fill(writer: asyncio.StreamWriter) -> None:
            with contextlib.suppress(OSError):
                writer.write(body)
                await writer.drain()

        filling = [asyncio.create_task(fill(writer)) for writer in writers]
        await until(lambda: process.num_fds() > descriptors + BODIES // 2)
        assert await ping(stack) == 200
        most = 0

        def closed() -> bool:
            nonlocal most
            most = max(most, process.memory_info().rss)
            return process.num_fds() <= descriptors + 8

        await until(closed, timeout_s=300)
        for task in filling:
            task.cancel()
        await asyncio.gather(*filling, return_exceptions=True)
    assert most - before < 110 * 2**20  # 64 MiB of unfinished bodies, and what parsers hold of them
    await until(lambda: process.memory_info().rss - before < LEFT_BYTES)
    assert await ping(stack) == 200
