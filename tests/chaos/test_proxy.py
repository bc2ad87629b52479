"""What the proxy does to connections."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager

import pytest

from searchbus_testing import until

from .proxy import Fault, Proxy


class Echoing:
    """A server that repeats each line, and what it got."""

    def __init__(self):
        self.lines = []

    async def serve(self, reader, writer):
        while line := await reader.readline():
            self.lines.append(line)
            writer.write(line)
        writer.close()


@asynccontextmanager
async def through_proxy(**options):
    echoing = Echoing()
    server = await asyncio.start_server(echoing.serve, "127.0.0.1", 0)
    async with Proxy(server.sockets[0].getsockname()[1], **options) as proxy:
        reader, writer = await asyncio.open_connection("127.0.0.1", proxy.port)
        yield echoing, proxy, reader, writer
        writer.close()
    server.close()


async def test_a_delay_is_for_each_way_and_keeps_the_order():
    """Lines that are sent at once arrive at once, later."""
    async with through_proxy(delay_s=0.05) as (_, _, reader, writer):
        started_s = asyncio.get_running_loop().time()
        for number in range(100):
            writer.write(b"%d\n" % number)
            await writer.drain()
        assert [await reader.readline() for _ in range(100)] == [b"%d\n" % n for n in range(100)]
        assert asyncio.get_running_loop().time() - started_s >= 0.1


@pytest.mark.parametrize("fault", [Fault.NONE, Fault.SLOW])
async def test_every_byte_passes(fault):
    """Also a few at a time."""
    async with through_proxy() as (_, proxy, reader, writer):
        proxy.fault = fault
        writer.write(b"x" * 999 + b"\n")
        assert await reader.readline() == b"x" * 999 + b"\n"


@pytest.mark.parametrize(("fault", "arrives"), [(Fault.STALL, False), (Fault.HALF_OPEN, True)])
async def test_what_is_held_goes_on_when_the_fault_ends(fault, arrives):
    """Half-open: the server gets the line, and its answer does not come back."""
    async with through_proxy() as (echoing, proxy, reader, writer):
        writer.write(b"first\n")
        assert await reader.readline() == b"first\n"
        proxy.fault = fault
        writer.write(b"second\n")
        if arrives:
            await until(lambda: len(echoing.lines) == 2)
        answer = asyncio.create_task(reader.readline())
        await asyncio.sleep(0.05)
        assert not answer.done()
        assert (len(echoing.lines) == 2) == arrives
        proxy.fault = Fault.NONE
        assert await answer == b"second\n"


async def test_cut_connections_are_reset_and_new_ones_too():
    """Until it ends."""
    async with through_proxy() as (_, proxy, reader, writer):
        writer.write(b"first\n")
        await reader.readline()
        proxy.fault = Fault.CUT
        with pytest.raises(OSError, match="reset"):
            await reader.read()
        again, _ = await asyncio.open_connection("127.0.0.1", proxy.port)
        with pytest.raises(OSError, match="reset"):
            await again.read()
        proxy.fault = Fault.NONE
        third, sending = await asyncio.open_connection("127.0.0.1", proxy.port)
        sending.write(b"third\n")
        assert await third.readline() == b"third\n"
        sending.close()
