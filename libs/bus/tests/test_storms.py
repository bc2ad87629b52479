"""Catalogues that change all the time, two catalogues of one service, clocks that differ."""

from __future__ import annotations

import asyncio
import time
from contextlib import asynccontextmanager

import pytest

from searchbus_bus import Directory, MemoryBroker, Worker
from searchbus_bus.client.request import Deadline
from searchbus_bus.worker import serving
from searchbus_contracts import Fault, ToolCall, ToolDescriptor, ToolReply
from searchbus_testing import until

from .tool_workers import names, reply


def add(worker: Worker, name: str, description: str = "d") -> None:
    worker._tools.pop((worker.service, name), None)
    worker.add_tool(
        ToolDescriptor(
            name=name, toolset=worker.service, description=description,
            input_schema={"type": "object"},
        ),
        reply,
    )  # fmt: skip


def worker(service: str, *tools: str) -> Worker:
    made = Worker(service)
    for name in tools:
        add(made, name)
    return made


@asynccontextmanager
async def following(broker, **options):
    directory = Directory(broker.connect(), **{"refresh_s": 3600, "grace_s": 3600} | options)
    await directory.start()
    try:
        yield directory
    finally:
        await directory.close()


async def test_a_worker_that_republishes_all_the_time_is_followed():
    """Also while its catalogue is read: each listing is one of its catalogues, at last the last."""
    broker = MemoryBroker()
    changing, steady = (
        worker("changing", *(f"tool_{n:03}" for n in range(400))),
        worker("steady", "one"),
    )
    for number in range(400):
        add(changing, f"tool_{number:03}", "d" * 300)
    serving = await broker.connect().serve(changing)
    await broker.connect().serve(steady)
    listed: list[set[str]] = []

    async def note(listing) -> None:
        for catalog in listing.catalogs:
            if catalog.service == "changing":
                listed.append(
                    {tool.description for tool in catalog.tools if "version" in tool.description}
                )

    async with following(broker, prepare=note) as directory:
        for version in range(40):
            for name in ("tool_007", "tool_333"):
                add(changing, name, f"version {version}")
            await serving.refresh()
        last = changing.catalog.digest
        # A reading that its worker overtook is made up for by a round.
        async with asyncio.timeout(60):
            while last not in {catalog.digest for catalog in directory.catalogs}:
                await directory.refresh()
                await asyncio.sleep(0.01)
        assert "one" in names(directory)
    # Two tools change at once: nobody sees one without the other.
    assert all(len(versions) <= 1 for versions in listed)
    assert listed[-1] == {"version 39"}


@pytest.mark.parametrize("hour_s", [0, -3600, 3600])
async def test_two_catalogues_of_one_service_end_as_the_one_that_stays(monkeypatch, hour_s):
    """Whatever the clock of the new worker's host says; and in between all followers list one."""
    broker = MemoryBroker()
    old = await broker.connect().serve(worker("many", "kept", "removed"))
    shifted = time.time_ns() + (1 + hour_s) * 10**9
    async with following(broker) as first:
        with monkeypatch.context() as patch:
            patch.setattr(serving.time, "time_ns", lambda: shifted)
            new = await broker.connect().serve(worker("many", "kept", "added"))
        async with following(broker) as second:
            await until(lambda: first.count("many") == second.count("many") == 2)
            expected = ["added", "kept"] if hour_s >= 0 else ["kept", "removed"]
            await until(lambda: names(first) == names(second) == expected)
            # Either worker answers what it has, and a typed failure for the rest.
            for _ in range(20):
                try:
                    await ask(broker, "added")
                except Fault as fault:
                    assert fault.code == "not_found"
            await old.drain()
            await until(lambda: names(first) == names(second) == ["added", "kept"])
            await ask(broker, "added")
    await new.drain()


async def ask(broker: MemoryBroker, tool: str) -> ToolReply:
    bus = broker.connect()
    return await bus.request(
        bus.subjects.tool("many", tool), ToolCall(tool=tool), ToolReply, service="many", timeout_s=60
    )  # fmt: skip


def shift_clocks_of_callers(monkeypatch, shift_s: int) -> None:
    """Of all that send requests; workers have the right time."""
    right = Deadline.to_headers

    def shifted(self) -> dict[str, str]:
        headers = right(self)
        return headers | {"Deadline-Ms": str(int(headers["Deadline-Ms"]) + shift_s * 1000)}

    monkeypatch.setattr(Deadline, "to_headers", shifted)


async def test_a_worker_whose_clock_is_behind_works(monkeypatch):
    """The time that was left when the request was sent counts."""
    broker = MemoryBroker()
    await broker.connect().serve(worker("many", "one"))
    shift_clocks_of_callers(monkeypatch, 3600)
    await ask(broker, "one")


async def test_a_worker_whose_clock_is_ahead_says_so(monkeypatch, caplog):
    """To it every deadline has passed; the log names the clocks, once a minute."""
    broker = MemoryBroker()
    await broker.connect().serve(worker("many", "one"))
    counted: list[str] = []
    monkeypatch.setattr("searchbus_bus.telemetry.count_error", counted.append)
    shift_clocks_of_callers(monkeypatch, -3600)
    for _ in range(3):
        with pytest.raises(Fault) as caught:
            await ask(broker, "one")
        assert caught.value.code == "deadline_exceeded"
    assert counted == ["late"] * 3
    assert caplog.text.count("after its deadline") == 1
    assert "the clocks of two hosts differ" in caplog.text
