"""Messages to and from a command."""

from __future__ import annotations

import asyncio
from contextlib import suppress

import pytest
from mcp.shared.message import SessionMessage
from mcp_types import JSONRPCRequest

from searchbus_attach.declare.servers import parse_server
from searchbus_attach.transports import stdio
from searchbus_attach.transports.budget import Budget
from searchbus_attach.transports.child import ChildLog, ServerProcess
from searchbus_attach.transports.direct import DirectRequests
from searchbus_attach.transports.notes import HttpNotes
from searchbus_attach.transports.reaping import Reaper
from searchbus_attach.transports.stdio import stdio_transport
from searchbus_attach.upstream.connection import why
from searchbus_testing import until

from ..conftest import children, plain


@pytest.fixture
def reaper():
    found = Reaper()
    yield found
    found.close()


async def test_messages_go_both_ways_and_other_lines_into_the_log(reaper, tmp_path):
    """The process ends with the transport."""
    log = ChildLog("plain", tmp_path)
    async with stdio_transport(
        plain({"start": "greeting"}), reaper, log, Budget("plain"), DirectRequests()
    ) as (
        read,
        write,
    ):
        request = JSONRPCRequest(jsonrpc="2.0", id=1, method="initialize", params={})
        await write.send(SessionMessage(request))
        answer = await read.receive()
        assert answer.message.result["serverInfo"]["name"] == "plain"
        assert len(children()) == 1
    assert children() == []
    log.close()
    assert "(not a message) Welcome" in (tmp_path / "attach-plain.log").read_text()


async def test_the_end_of_a_command_ends_the_transport(reaper, tmp_path):
    """With its exit code, and where to look."""
    with pytest.raises(ExceptionGroup) as error:
        log = ChildLog("x", tmp_path)
        async with stdio_transport(
            plain({"start": "die"}), reaper, log, Budget("x"), DirectRequests()
        ) as (read, _):
            async for _ in read:
                pass
            await read.receive()
    fault = error.value.exceptions[-1]
    assert why(fault, HttpNotes()) == f"it ended with code 4; see {tmp_path / 'attach-x.log'}"
    assert why(fault, HttpNotes()).told == "it ended with code 4"


async def test_a_line_is_paid_for_as_it_is_read(monkeypatch):
    """One without an end holds the loop as well."""
    paid: list[tuple[int, float]] = []
    budget = Budget("x")

    async def pace(size_bytes: int, messages: float = 1.0) -> None:
        paid.append((size_bytes, messages))

    monkeypatch.setattr(budget, "pace", pace)
    output = asyncio.StreamReader()
    lines = stdio._lines(output, budget)
    reading = asyncio.ensure_future(anext(lines))
    for number in range(1, 4):
        output.feed_data(b"x" * 1000)
        await until(lambda number=number: len(paid) == number)
    assert not reading.done()
    output.feed_data(b"y\n\nz\n")
    output.feed_eof()
    assert [await reading, *[line async for line in lines]] == [b"x" * 3000 + b"y", b"", b"z"]
    assert paid == [(1000, 0)] * 3 + [(1, 1.0), (0, 1.0), (1, 1.0)]


async def test_what_a_command_does_not_read_is_not_kept_for_each_call(reaper, monkeypatch):
    """It waits with its call, and goes with it."""
    started: list[ServerProcess] = []
    real_start = ServerProcess.start

    async def start(*args):
        started.append(await real_start(*args))
        return started[-1]

    monkeypatch.setattr(stdio.ServerProcess, "start", start)
    server, direct = parse_server("x", {"command": "sleep", "args": ["600"]}), DirectRequests()
    async with stdio_transport(server, reaper, ChildLog("x", None), Budget("x"), direct):
        for _ in range(40):
            with suppress(TimeoutError):
                async with asyncio.timeout(0.01):
                    await direct.request(
                        "tools/call", {"text": "x" * 100_000},
                        headers={}, on_progress=None, on_abandon=lambda _: None,
                    )  # fmt: skip
        assert started[0].stdin.transport.get_write_buffer_size() < 1_000_000
