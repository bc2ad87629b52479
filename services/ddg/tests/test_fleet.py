"""Leases of egress addresses, and membership of the queue group."""

from __future__ import annotations

import time

import pytest

from searchbus_bus.keyvalue_memory import MemoryKeyValue
from searchbus_ddg.egress import Egress, egress_id
from searchbus_ddg.fleet import Fleet, claim
from searchbus_testing import until
from searchbus_upstream import Pace

EGRESSES = ("direct", "bind:10.0.0.1", "http://proxy:3128")


class FakeServing:
    """Keeps whether the worker is in the queue group."""

    def __init__(self) -> None:
        self.steps: list[str] = []

    async def step_in(self) -> None:
        self.steps.append("in")

    async def step_out(self) -> None:
        self.steps.append("out")


@pytest.fixture
def leases():
    return MemoryKeyValue(ttl_s=60)


@pytest.fixture
def refusals():
    return MemoryKeyValue(ttl_s=3600)


def member(leases, refusals, name: str, probe_succeeds: bool = True) -> tuple[Fleet, Egress]:
    """A worker with a lease; its probe closes the breaker or is refused again."""
    egress = Egress(name, None, Pace(0.0))

    async def probe() -> bool:
        if egress.breaker.try_probe():
            if probe_succeeds:
                egress.breaker.succeeded()
            else:
                egress.breaker.refused(60.0)
        return egress.breaker.closed

    fleet = Fleet(
        egress, egress_id(name), f"holder-{name}", leases, refusals, probe, update_every_s=0.01
    )
    return fleet, egress


async def test_each_worker_gets_another_egress(leases):
    """The next free one from its number on; surplus workers get none."""
    found = [await claim(leases, EGRESSES, f"w{i}", index=1) for i in range(4)]
    assert found == ["bind:10.0.0.1", "http://proxy:3128", "direct", None]


async def test_without_a_store_the_number_chooses(leases):
    """Also where the store is away."""
    assert [await claim(None, EGRESSES, "w", index=i) for i in (0, 2, 3)] == [
        "direct", "http://proxy:3128", None,
    ]  # fmt: skip
    leases.away = True
    assert await claim(leases, EGRESSES, "w", index=1) == "bind:10.0.0.1"


async def test_places_do_not_share_their_own_addresses(leases):
    """But proxies."""
    assert await claim(leases, ("direct",), "a", index=0, place="node1") == "direct"
    assert await claim(leases, ("direct",), "b", index=0, place="node2") == "direct"
    proxy = ("http://proxy:3128",)
    assert await claim(leases, proxy, "a", index=0, place="node1") == proxy[0]
    assert await claim(leases, proxy, "b", index=0, place="node2") is None


async def test_refused_worker_leaves_and_joins_again_after_its_probe(leases, refusals):
    """While another address is healthy."""
    healthy, _ = member(leases, refusals, "healthy")
    refused, egress = member(leases, refusals, "refused")
    serving = FakeServing()
    async with healthy, refused:
        refused.manage(serving)
        egress.breaker.refused(0.05)
        egress.on_refused()
        await until(lambda: serving.steps == ["out", "in"])
        assert egress.breaker.closed


class CountedKeyValue(MemoryKeyValue):
    """Counts how often an entry is read and written."""

    reads = writes = 0

    async def get(self, key):
        self.reads += 1
        return await super().get(key)

    async def put(self, key, value):
        self.writes += 1
        return await super().put(key, value)


async def test_cost_of_an_update_does_not_grow_with_the_fleet(refusals):
    """Only a refused worker reads the leases of others, until it finds a healthy one."""
    leases = CountedKeyValue(ttl_s=60)
    for number in range(1000):
        await leases.create(egress_id(f"other{number}"), b'{"holder":"h"}')
    leases.reads = leases.writes = 0
    fleet, egress = member(leases, refusals, "a")
    serving = FakeServing()
    async with fleet:
        fleet.manage(serving)
        await until(lambda: leases.writes >= 5)
        assert leases.reads <= leases.writes + 1
        egress.breaker.refused(1000.0)
        before = leases.reads
        assert await fleet.leave_to_others()
        assert leases.reads - before < 10
        assert serving.steps == ["out"]


async def test_last_worker_stays_in_the_queue_group(leases, refusals):
    """Calls fail immediately there, with the time until the first probe."""
    one, one_egress = member(leases, refusals, "one")
    other, other_egress = member(leases, refusals, "other")
    serving = FakeServing()
    async with one, other:
        one.manage(serving)
        other_egress.breaker.refused(1000.0)
        await other.leave_to_others()
        one_egress.breaker.refused(5000.0)
        assert not await one.leave_to_others()
        assert serving.steps == []
        assert 900 < one.remaining_s <= 1000


async def test_refusal_is_known_after_a_restart(leases, refusals):
    """It outlives the lease."""
    first, egress = member(leases, refusals, "a")
    async with first:
        egress.breaker.refused(1000.0)
        await first.leave_to_others()
    assert await leases.keys() == []
    second, egress = member(leases, refusals, "a")
    async with second:
        assert not egress.breaker.closed
        assert egress.breaker.open_until_s > time.time() + 900


async def test_suspicion_is_not_known_after_a_restart(leases, refusals):
    """Nothing is proved yet."""
    first, egress = member(leases, refusals, "a")
    async with first:
        egress.breaker.suspect(1000.0)
        await first.leave_to_others()
        assert await leases.keys() == [egress_id("a")]
    assert await refusals.keys() == []


async def test_release_leaves_another_workers_lease(leases, refusals):
    """A worker that was cut off does not delete the lease of its successor."""
    fleet, _ = member(leases, refusals, "a")
    serving = FakeServing()
    async with fleet:
        fleet.manage(serving)
        await leases.put(egress_id("a"), b'{"holder":"successor"}')
        await until(lambda: serving.steps == ["out"])
    assert await leases.keys() == [egress_id("a")]


async def test_store_that_is_away_does_not_stop_the_worker(leases, refusals):
    """It stays in the queue group."""
    fleet, egress = member(leases, refusals, "a", probe_succeeds=False)
    serving = FakeServing()
    async with fleet:
        fleet.manage(serving)
        leases.away = refusals.away = True
        egress.breaker.refused(1000.0)
        assert not await fleet.leave_to_others()
        assert serving.steps == []
        leases.away = refusals.away = False
