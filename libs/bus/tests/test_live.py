"""What parts of a process say of themselves, and how a ping brings it."""

from __future__ import annotations

import gc

from searchbus_bus import MemoryBroker, Worker
from searchbus_bus.live import MAX_PARTS, LiveParts, Tally, live_parts
from searchbus_contracts import LivePart


class Thing:
    """Something that is watched."""


things: LiveParts[Thing] = LiveParts(lambda thing: LivePart(kind="thing", name="one"))


def named(kind: str) -> list[LivePart]:
    """Needs a running loop, as in a service: parts that other tests left behind may use it."""
    return [part for part in live_parts() if part.kind == kind]


async def test_watched_object_is_a_part_until_it_is_gone():
    """Nobody has to take it away."""
    thing = Thing()
    things.watch(thing)
    assert [part.name for part in named("thing")] == ["one"]
    del thing
    gc.collect()
    assert named("thing") == []


async def test_tally_counts_outcomes_of_a_limited_number_of_names():
    """A name that others choose fills no memory."""
    tally = Tally("counted")
    tally.add("pages", "hit")
    tally.add("pages", "hit")
    tally.add("pages", "miss")
    for number in range(1000):
        tally.add(f"n{number}", "hit")
    found = named("counted")
    assert found[0] == LivePart(kind="counted", name="pages", numbers={"hit": 2.0, "miss": 1.0})
    assert len(live_parts()) <= MAX_PARTS


async def test_ping_for_parts_brings_load_and_parts():
    """Of the instance that is asked; a plain ping and a body of nonsense bring neither."""
    broker = MemoryBroker()
    serving = await broker.connect(name="w").serve(Worker("w", max_in_flight=7))
    bus = broker.connect(name="edge")
    thing = Thing()
    things.watch(thing)
    pong = await bus.live("w", serving.instance, 5.0)
    assert pong is not None
    assert (pong.instance, pong.limit, pong.in_flight) == (serving.instance, 7, 0)
    assert LivePart(kind="thing", name="one") in pong.parts
    assert await bus.live("w", "M9999", 0.05) is None
    assert await bus.live("w", "not a token", 0.05) is None
    assert await bus.ping("w", serving.instance, 5.0)


async def test_a_worker_that_does_not_show_its_process_answers_with_its_own_load_only():
    """It serves another tenant, who may know as much as the state of a worker."""
    broker = MemoryBroker()
    serving = await broker.connect(name="w").serve(Worker("w", shows_parts=False))
    thing = Thing()
    things.watch(thing)
    pong = await broker.connect(name="edge").live("w", serving.instance, 5.0)
    assert pong is not None
    assert (pong.limit, pong.parts) == (64, ())
