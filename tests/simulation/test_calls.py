"""One answer or one typed error by the deadline, whatever the bus does to the messages."""

from __future__ import annotations

import asyncio
from contextlib import suppress

import msgspec

from searchbus_bus import Bus, Call, Worker, endpoint
from searchbus_bus.catalog.directory import Directory
from searchbus_contracts import Fault

from .seeds import many, quick
from .world import World, simulate

TIMEOUT_S = 5.0
SPARE_S = 0.25


class Text(msgspec.Struct):
    """A request and its reply."""

    text: str


class Echo:
    """Returns what it got; a body over the broker's limit travels in parts."""

    def __init__(self, world: World) -> None:
        self._world = world

    @endpoint
    async def echo(self, call: Call, request: Text) -> Text:
        """The text, a little later."""
        await asyncio.sleep(self._world.chance.random() * 0.2)
        return request


async def start_worker(world: World, broker) -> tuple[Bus, object]:
    bus = broker.connect()
    worker = Worker("sim")
    worker.add(Echo(world))
    return bus, await bus.serve(worker)


def _text(world: World, number: int) -> str:
    large = world.chance.random() < 0.2
    return f"{number} " + "x" * (world.chance.randrange(200_000) if large else 10)


async def calls(world: World) -> list[str]:
    """Forty calls over a bus with faults, while workers crash and start."""
    broker = world.broker(max_payload_bytes=64 * 1024)
    workers = [await start_worker(world, broker) for _ in range(3)]
    caller = broker.connect()
    outcomes: list[str] = []

    async def call(number: int) -> None:
        await asyncio.sleep(world.chance.random() * 20)
        text = _text(world, number)
        started_s = world.loop.time()
        try:
            reply = await caller.request(
                caller.subjects.endpoint("sim", "echo"), Text(text), Text, service="sim",
                timeout_s=TIMEOUT_S,
            )  # fmt: skip
            assert reply.text == text
            outcomes.append("answer")
        except Fault as fault:
            outcomes.append(str(fault.code))
        assert world.loop.time() - started_s <= TIMEOUT_S + SPARE_S

    async def trouble() -> None:
        for _ in range(8):
            await asyncio.sleep(2)
            broker.lost = world.chance.choice((0.0, 0.02, 0.2))
            broker.doubled = world.chance.choice((0.0, 0.2))
            broker.longest_delay_s = world.chance.choice((0.0, 0.05, 1.0))
            if world.chance.random() < 0.5 and len(workers) > 1:
                bus, _ = workers.pop(world.chance.randrange(len(workers)))
                bus.transport.sever()
            elif len(workers) < 4:
                workers.append(await start_worker(world, broker))
        broker.heal()

    await asyncio.gather(trouble(), *(call(number) for number in range(40)))
    outcomes.append("healed")
    await call(99)
    return outcomes


@quick
def test_each_call_ends_by_its_deadline_with_its_own_answer_or_a_typed_error(seed):
    """And a bus without faults answers."""
    outcomes = simulate(calls, seed=seed)
    assert len(outcomes) == 42
    assert outcomes[-1] == "answer"


test_each_call_with_many_seeds = many(
    test_each_call_ends_by_its_deadline_with_its_own_answer_or_a_typed_error
)


def test_seed_replays():
    """The same seed gives the same outcomes in the same order, another seed others."""
    runs = [simulate(calls, seed=seed) for seed in (5, 6, 5)]
    assert runs[0] == runs[2]
    assert runs[0] != runs[1]


async def discovery(world: World) -> tuple[int, int]:
    """Workers come, stop and crash, while messages of discovery are lost."""
    broker = world.broker()
    directory = Directory(broker.connect(), refresh_s=1.0)
    await directory.start()
    alive: list[tuple[Bus, object]] = []
    for _ in range(30):
        await asyncio.sleep(world.chance.random() * 3)
        broker.lost = world.chance.choice((0.0, 0.0, 0.1, 0.4))
        broker.doubled = world.chance.choice((0.0, 0.3))
        broker.longest_delay_s = world.chance.choice((0.0, 0.05))
        step = world.chance.random()
        if step < 0.5 and len(alive) < 12:
            alive.append(await start_worker(world, broker))
        elif alive:
            bus, serving = alive.pop(world.chance.randrange(len(alive)))
            if step < 0.75:
                bus.transport.sever()
            else:
                with suppress(Fault):
                    await serving.drain(1.0)
                await bus.close()
    broker.heal()
    await asyncio.sleep(60)
    seen = directory.count("sim")
    await directory.close()
    return seen, len(alive)


@quick
def test_directory_has_exactly_the_workers_that_are_alive(seed):
    """Once the faults have ended."""
    seen, alive = simulate(discovery, seed=seed)
    assert seen == alive


test_directory_with_many_seeds = many(test_directory_has_exactly_the_workers_that_are_alive)
