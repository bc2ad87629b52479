"""A thousand workers on a real server: a directory sees all of them and loses none."""

from __future__ import annotations

import asyncio
import itertools
import secrets
from collections.abc import AsyncIterator
from typing import Any

import pytest
from nats.aio.msg import Msg

from searchbus_bus import Bus, Directory, Serving, Worker, connect
from searchbus_bus.client.discovery import WorkerInfo
from searchbus_contracts import ToolDescriptor, ToolReply
from searchbus_testing import until

WORKERS, SERVICES, CONNECTIONS = 1000, 10, 10
pytestmark = pytest.mark.slow


async def reply(call, request) -> ToolReply:
    return ToolReply()


def light_worker(service: str) -> Worker:
    worker = Worker(service)
    worker.add_tool(
        ToolDescriptor(
            name="one", toolset=service, description="d", input_schema={"type": "object"}
        ),
        reply,
    )
    return worker


@pytest.fixture
async def buses(nats_server) -> AsyncIterator[list[Bus]]:
    """Connections of the workers, and two more at the end for directories."""
    prefix = f"t{secrets.token_hex(4)}"
    made = [
        await connect(nats_server.url, name=f"c{number}", prefix=prefix)
        for number in range(CONNECTIONS + 2)
    ]
    yield made
    for bus in made:
        await bus.close()


def seen(directory: Directory) -> int:
    return len(directory.instances)


def received(bus: Bus) -> int:
    return bus.transport._client.stats["in_msgs"]


async def test_all_are_seen_and_none_is_lost_though_they_are_slow(buses, monkeypatch):
    """Their replies take much longer together than any fixed time for a round."""
    *fleet, first, late = buses
    early = Directory(first, refresh_s=3600)
    await early.start()
    for number in range(WORKERS):
        await fleet[number % CONNECTIONS].serve(light_worker(f"s{number % SERVICES}"))
    # Events alone: nobody was asked again.
    await until(lambda: seen(early) == WORKERS and len(early.catalogs) == SERVICES)
    assert early.rounds == 1

    respond, turn, number = Msg.respond, asyncio.Lock(), itertools.count()

    async def one_after_the_other(self: Msg, data: bytes) -> None:
        async with turn:
            if next(number) % 4 == 0:
                await asyncio.sleep(0.001)
        await respond(self, data)

    monkeypatch.setattr(Msg, "respond", one_after_the_other)
    replied, workers = [], late.workers

    async def counted(**options: Any) -> list[WorkerInfo]:
        found = await workers(**options)
        replied.append(len(found))
        return found

    monkeypatch.setattr(late, "workers", counted)
    directory = Directory(late, refresh_s=3600)
    await directory.start()
    lost: list[object] = []
    monkeypatch.setattr(directory._presence, "remove", lambda *key, **how: lost.append(key))
    before = received(late)
    for _ in range(3):
        await directory.refresh()
        await until(lambda: directory._probing is None or directory._probing.done())
    assert seen(directory) == WORKERS
    assert max(replied) == WORKERS  # a busy machine may miss some in one of the rounds
    assert lost == []
    # Two replies of each worker a round, and a pong of those that a round missed.
    assert received(late) - before <= 3 * (3 * WORKERS + 100)
    await early.close()
    await directory.close()


async def test_busy_workers_are_not_taken_for_lost(buses):
    """Whole processes that hang for a moment answer the ping later."""
    *fleet, first, _ = buses
    directory = Directory(first, refresh_s=3600)
    await directory.start()
    servings = [
        await fleet[number % CONNECTIONS].serve(light_worker(f"s{number % SERVICES}"))
        for number in range(200)
    ]
    await until(lambda: seen(directory) == 200)
    # A tenth does not reply to discovery any more.
    for serving in servings[::10]:
        await serving._announcement.withdraw()
    for _ in range(3):
        await directory.refresh()
        await until(lambda: directory._probing is not None and directory._probing.done())
    assert seen(directory) == 200
    await directory.close()


async def test_a_storm_of_events_costs_no_round(buses):
    """A thousand changes, and each follower only merges them."""
    *fleet, first, _ = buses
    directory = Directory(first, refresh_s=3600)
    await directory.start()
    servings = [await fleet[number].serve(light_worker(f"s{number}")) for number in range(10)]
    await until(lambda: len(directory.catalogs) == 10)
    before = received(first)

    async def storm() -> None:
        for _ in range(100):
            for serving in servings:
                await serving._announce("changed")

    await storm()
    await until(lambda: received(first) - before >= 1000)
    assert directory.rounds == 1
    assert received(first) - before < 1100
    await directory.close()


async def test_a_thousand_join_and_leave_at_once(buses):
    """Each is seen, and none afterwards, by events alone; a catalogue is read once."""
    *fleet, first, _ = buses

    async def serve(number: int) -> Serving:
        return await fleet[number % CONNECTIONS].serve(light_worker(f"s{number % SERVICES}"))

    directory = Directory(first, refresh_s=3600, grace_s=3600)
    await directory.start()
    before = received(first)
    servings = await asyncio.gather(*map(serve, range(WORKERS)))
    await until(lambda: seen(directory) == WORKERS and len(directory.catalogs) == SERVICES)
    # Half of them leave while as many others join.
    joined, _ = await asyncio.gather(
        asyncio.gather(*map(serve, range(WORKERS // 2))),
        asyncio.gather(*(serving.drain() for serving in servings[: WORKERS // 2])),
    )
    there = [*servings[WORKERS // 2 :], *joined]
    expected = {(serving.worker.service, serving.instance) for serving in there}
    await until(lambda: directory.instances.keys() == expected)
    await asyncio.gather(*(serving.drain() for serving in there))
    await until(lambda: seen(directory) == 0)
    # Listed for the time of a restart, and known to have stopped.
    assert len(directory.catalogs) == SERVICES
    assert [absence.announced for absence in directory.absences] == [True] * SERVICES
    assert directory.rounds == 1
    # One event for each coming and going, a few replies for each catalogue, and no round (2,000).
    assert received(first) - before <= 4 * WORKERS
    await directory.close()
