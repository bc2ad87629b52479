"""The shared cache: callers that leave, fetches that fail, a store that is away."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

from searchbus_contracts import ErrorCode, Fault
from searchbus_upstream.cache import LEASE_TTL_S, Fetched, SharedCache

from .seeds import many, quick
from .world import FaultyStore, World, simulate

PROCESSES = 3
CALLERS = 30


async def callers(world: World) -> Counter[str]:
    """Thirty callers in three processes ask for two values."""
    sound = world.chance.random() < 0.3
    answers, flights = world.store(ttl_s=600), world.store(ttl_s=LEASE_TTL_S)
    for store in (answers, flights):
        store.longest_delay_s = 0.05
        store.failing = 0.0 if sound else 0.1
    caches = [SharedCache(answers, flights, clock=world.now_s) for _ in range(PROCESSES)]
    fetching: Counter[tuple[int, str]] = Counter()
    found: Counter[str] = Counter()

    async def caller(number: int) -> None:
        await asyncio.sleep(world.chance.random() * 10)
        process, key = world.chance.randrange(PROCESSES), world.chance.choice("ab")

        async def fetch() -> Fetched:
            fetching[process, key] += 1
            try:
                assert fetching[process, key] == 1, "one fetch at a time in a process"
                everywhere = sum(n for (_, k), n in fetching.items() if k == key)
                assert everywhere == 1 or not sound, "one fetch at a time in all processes"
                await asyncio.sleep(world.chance.random())
                if world.chance.random() < 0.2:
                    raise Fault(ErrorCode.UPSTREAM_FAILED, "The provider failed.")
                return Fetched(f"value of {key}".encode(), store=world.chance.random() < 0.7)
            finally:
                fetching[process, key] -= 1

        fresh_s = world.chance.choice((0.0, 1.0, 600.0))
        call = asyncio.create_task(caches[process].get(key, fetch, fresh_s=fresh_s, stale_s=600.0))
        leaves = world.chance.random() < 0.3
        done, _ = await asyncio.wait([call], timeout=world.chance.random() if leaves else 100)
        if not done:
            assert leaves, "a caller that stays gets an outcome"
            call.cancel()
            await asyncio.wait([call])
            found["left"] += 1
            return
        try:
            assert (await call).value == f"value of {key}".encode()
            found["value"] += 1
        except Fault as fault:
            assert fault.code == ErrorCode.UPSTREAM_FAILED
            found["fault"] += 1

    await asyncio.gather(*(caller(number) for number in range(CALLERS)))
    await asyncio.sleep(LEASE_TTL_S + 1)
    assert all(not cache._running for cache in caches), "nothing is left"
    assert sum(fetching.values()) == 0
    return found


@quick
def test_every_caller_that_stays_gets_the_value_or_the_failure(seed):
    """With one fetch at a time; nobody is cancelled by another one who leaves."""
    assert simulate(callers, seed=seed).total() == CALLERS


test_callers_with_many_seeds = many(test_every_caller_that_stays_gets_the_value_or_the_failure)


class Process:
    """A worker that can be stopped: its work and what it asks of the store wait until it goes on."""

    def __init__(self, world: World, *stores: FaultyStore) -> None:
        self.goes = asyncio.Event()
        self.goes.set()
        self.fetching: list[bytes] = []
        answers, flights = (_StoreOf(self, store) for store in stores)
        self.cache = SharedCache(answers, flights, clock=world.now_s)

    async def get(self, value: bytes, seconds: float, *, fresh_s: float = 600.0) -> bytes:
        """Ask for the one value; a fetch of this process takes some seconds and finds `value`."""

        async def fetch() -> Fetched:
            self.fetching.append(value)
            await asyncio.sleep(seconds)
            await self.goes.wait()
            return Fetched(value)

        found = await self.cache.get("q", fetch, fresh_s=fresh_s, stale_s=600.0)
        return found.value


class _StoreOf:
    def __init__(self, process: Process, store: FaultyStore) -> None:
        self._process = process
        self._store = store

    def __getattr__(self, name: str) -> Any:
        async def operation(*arguments: Any) -> Any:
            await self._process.goes.wait()
            return await getattr(self._store, name)(*arguments)

        return operation


def processes(world: World, count: int) -> list[Process]:
    """Workers that share their stores."""
    answers, flights = world.store(ttl_s=600), world.store(ttl_s=LEASE_TTL_S)
    answers.longest_delay_s = flights.longest_delay_s = 0.02
    return [Process(world, answers, flights) for _ in range(count)]


async def lost_worker(world: World) -> float:
    """A worker is lost while it fetches; returns the seconds from then until all others answer."""
    lost, *others = processes(world, 4)
    first = asyncio.create_task(lost.get(b"lost", 60.0))
    await asyncio.sleep(0.1 + 3 * world.chance.random())
    lost.goes.clear()
    lost_at_s = world.loop.time()
    calls = [asyncio.create_task(other.get(b"found", 0.5)) for other in others * 5]
    assert set(await asyncio.gather(*calls)) == {b"found"}
    assert [value for other in others for value in other.fetching] == [b"found"], "one takes over"
    took_s = world.loop.time() - lost_at_s
    first.cancel()
    lost.goes.set()
    await asyncio.wait([first])
    return took_s


@quick
def test_a_lost_worker_costs_those_who_wait_for_its_fetch_no_more_than_its_lease(seed):
    """One of them takes over; half a second is its own fetch."""
    assert simulate(lost_worker, seed=seed) < LEASE_TTL_S + 1.0 < 4.0


async def returning_worker(world: World) -> None:
    """A worker is stopped while it fetches or stores, and goes on during a later fetch."""
    stopped, second, third, fourth = processes(world, 4)
    first = asyncio.create_task(stopped.get(b"old", 1.0))
    await asyncio.sleep(0.9 + 0.2 * world.chance.random())
    stopped.goes.clear()
    before = await second.get(b"new", 0.5, fresh_s=0.0)
    assert before == b"new"
    await asyncio.sleep(0.1)
    later = asyncio.create_task(third.get(b"newest", 2.0, fresh_s=0.0))
    await asyncio.sleep(0.5)
    stopped.goes.set()
    assert await first in (b"old", b"new", b"newest")
    await asyncio.sleep(0.5)
    assert await fourth.get(b"too much", 2.0, fresh_s=1.0) == b"newest", "the lease is not its own"
    await later
    for process in (stopped, second, third, fourth):
        found = await process.cache.stored("q", fresh_s=600.0)
        assert found is not None
        assert found.value == b"newest", "it wrote over nothing newer"


@quick
def test_a_worker_that_goes_on_later_harms_no_newer_fetch(seed):
    """It neither writes over a newer value nor ends the lease of another worker."""
    simulate(returning_worker, seed=seed)


test_returning_workers_with_many_seeds = many(test_a_worker_that_goes_on_later_harms_no_newer_fetch)


async def long_fetch(world: World) -> None:
    """A fetch takes far longer than the lease."""
    first, *others = processes(world, 3)
    calls = [asyncio.create_task(first.get(b"found", 20 * LEASE_TTL_S))]
    for other in others:
        await asyncio.sleep(LEASE_TTL_S)
        calls.append(asyncio.create_task(other.get(b"too much", 0.1)))
    assert set(await asyncio.gather(*calls)) == {b"found"}


@quick
def test_a_fetch_that_takes_long_keeps_its_lease(seed):
    """It is made once."""
    simulate(long_fetch, seed=seed)
