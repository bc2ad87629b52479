"""Leases of callers' sessions: who holds a key, for how long, and who has it next."""

from __future__ import annotations

import asyncio
import logging

import pytest

from searchbus_attach.sessions.leases import Holder, Leases, SessionLease, lease_key
from searchbus_bus import MemoryBroker
from searchbus_bus.store.keyvalue import MemoryKeyValue
from searchbus_contracts import Fault
from searchbus_testing import until

KEY = lease_key("browser", "ann")
TTL_S = 3000.0
"""Long, so that nothing is written in the background while a test sets the time."""


class Clock:
    """The time, which a test sets."""

    now_s = 1000.0

    def __call__(self) -> float:
        return self.now_s


class Counted(MemoryKeyValue):
    """Counts operations."""

    operations = 0

    async def _round_trip(self):
        self.operations += 1
        await super()._round_trip()


class Workers:
    """Workers with one store and one clock."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.store = Counted(ttl_s=TTL_S, clock=self.clock)
        self.lost: list[SessionLease] = []
        self.made: list[Leases] = []

    def new(self, instance: str) -> Leases:
        leases = Leases(self.store, ttl_s=TTL_S, clock=self.clock)
        leases.start(instance)
        self.made.append(leases)
        return leases

    async def take(self, leases: Leases, key: str = KEY) -> SessionLease | Holder:
        return await leases.take(key, self.lost.append)


@pytest.fixture
async def workers():
    made = Workers()
    yield made
    for leases in made.made:
        await leases.stop()


def test_a_key_is_a_token_that_names_nobody():
    """And differs by server and by caller."""
    assert len(KEY) == 64
    assert "ann" not in KEY
    assert len({KEY, lease_key("browser", "bob"), lease_key("other", "ann")}) == 3


async def test_a_valid_lease_costs_no_operation(workers):
    """Of the store, until it is written again."""
    here = workers.new("here")
    lease = await workers.take(here)
    operations = workers.store.operations
    for _ in range(10):
        assert here.is_valid(await workers.take(here))
    assert workers.store.operations == operations
    assert (await workers.store.get(KEY)).value == b"here"
    assert isinstance(lease, SessionLease)


async def test_another_worker_learns_who_holds_it(workers):
    """As long as the holder writes it again."""
    here, there = workers.new("here"), workers.new("there")
    await workers.take(here)
    for _ in range(5):
        workers.clock.now_s += TTL_S * 0.9
        await here.renew()
        assert (await workers.take(there)).instance == "here"
    workers.clock.now_s += TTL_S + 1
    assert isinstance(await workers.take(there), SessionLease)


async def test_one_of_many_workers_gets_it(workers):
    """All others learn the same holder, in whatever order they ask."""
    several = [workers.new(f"w{number}") for number in range(5)]
    found = await asyncio.gather(*(workers.take(leases) for leases in several for _ in range(4)))
    assert len({place.instance for place in found if isinstance(place, Holder)}) == 1
    assert sum(len(leases._held) for leases in several) == 1


async def test_only_what_is_due_is_written(workers):
    """A third of the time to live after the last write."""
    here = workers.new("here")
    for number in range(100):
        await workers.take(here, lease_key("browser", str(number)))
    operations = workers.store.operations
    await here.renew()
    assert workers.store.operations == operations
    workers.clock.now_s += TTL_S * 0.4
    await here.renew()
    await here.renew()
    assert workers.store.operations == operations + 100


async def test_after_a_lost_connection_all_are_written_at_once(workers):
    """A store that restarted is empty."""
    here, there = workers.new("here"), workers.new("there")
    await workers.take(here)
    await workers.store.delete(KEY)
    here.renew_soon()
    await here.renew()
    assert (await workers.take(there)).instance == "here"
    assert workers.lost == []


async def test_a_lease_that_another_worker_has_is_lost(workers):
    """At the next write, or at the next look at it."""
    here, there = workers.new("here"), workers.new("there")
    lease = await workers.take(here)
    workers.clock.now_s += TTL_S + 1
    assert not here.is_valid(lease)
    assert isinstance(await workers.take(there), SessionLease)
    await here.renew()
    assert workers.lost == [lease]
    assert not here._held
    other = await workers.take(there)
    workers.clock.now_s += TTL_S + 1
    await workers.take(here)
    assert (await workers.take(there)).instance == "here"
    assert workers.lost == [lease, other]


async def test_the_lease_of_a_worker_that_is_gone_is_taken_over_by_one(workers):
    """Who saw an older revision is too late."""
    here, there, third = (workers.new(name) for name in ("here", "there", "third"))
    await workers.take(here)
    seen = await workers.take(there)
    assert isinstance(await there.take_over(KEY, seen, workers.lost.append), SessionLease)
    assert await third.take_over(KEY, seen, workers.lost.append) is None
    assert (await workers.take(third)).instance == "there"


async def test_a_released_key_is_free_at_once(workers):
    """Unless another lease took its place here, or another worker holds it."""
    here, there = workers.new("here"), workers.new("there")
    first = await workers.take(here)
    second = await workers.take(here)
    await here.release(first)
    assert (await workers.take(there)).instance == "here"
    await here.release(second)
    assert isinstance(await workers.take(there), SessionLease)
    await here.release(second)
    assert (await workers.store.get(KEY)).value == b"there"


async def test_a_release_that_comes_too_late_frees_nothing(workers):
    """The lease had expired, and another worker holds the key."""
    here, there = workers.new("here"), workers.new("there")
    lease = await workers.take(here)
    workers.clock.now_s += TTL_S + 1
    await workers.take(there)
    await here.release(lease)
    assert (await workers.store.get(KEY)).value == b"there"


async def test_without_the_store_a_lease_is_made_later(workers):
    """Where another worker has it by then, this one lost it."""
    here, there = workers.new("here"), workers.new("there")
    workers.store.away = True
    mine, other = await workers.take(here), await workers.take(there)
    assert not here.is_valid(mine)
    with pytest.raises(Fault):
        await here.renew()
    workers.store.away = False
    await here.renew()
    await there.renew()
    assert here.is_valid(mine)
    assert workers.lost == [other]


async def test_a_store_that_is_away_is_asked_once_for_all(workers):
    """At each look."""
    here = workers.new("here")
    workers.store.away = True
    for number in range(10):
        await workers.take(here, lease_key("browser", str(number)))
    operations = workers.store.operations
    with pytest.raises(Fault):
        await here.renew()
    assert workers.store.operations == operations + 1


async def test_a_lease_whose_reply_was_lost_is_its_writers(workers):
    """The entry says so."""
    here = workers.new("here")
    await workers.store.create(KEY, b"here")
    lease = await workers.take(here)
    assert here.is_valid(lease)


async def test_a_release_without_the_store_is_logged(workers, caplog):
    """The entry expires."""
    caplog.set_level(logging.INFO)
    here = workers.new("here")
    lease = await workers.take(here)
    workers.store.away = True
    await here.release(lease)
    assert "expires" in caplog.text


async def test_calls_that_come_before_the_worker_is_known_wait(workers):
    """Its instance id comes from the bus."""
    leases = Leases(workers.store, ttl_s=TTL_S, clock=workers.clock)
    waiting = asyncio.create_task(workers.take(leases))
    await asyncio.sleep(0)
    assert not waiting.done()
    leases.start("late")
    await waiting
    assert (await workers.store.get(KEY)).value == b"late"
    await leases.stop()


async def test_leases_are_written_in_the_background():
    """Over the bus, in one bucket of all workers; after a lost connection soon."""
    broker = MemoryBroker()
    bus = broker.connect()
    leases = await Leases.over(bus)
    leases.start("here")
    lease = await leases.take(KEY, lambda _: None)
    (store,) = broker.buckets.values()
    await store.delete(KEY)
    bus.transport.sever()
    bus.transport.restore()

    async def written() -> bool:
        return await store.get(KEY) is not None

    await until(written)
    assert leases.is_valid(lease)
    await leases.stop()
