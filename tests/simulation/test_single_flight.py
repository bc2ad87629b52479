"""The shared cache: callers that leave, fetches that fail, a store that is away."""

from __future__ import annotations

import asyncio
from collections import Counter

from searchbus_contracts import ErrorCode, Fault
from searchbus_upstream.cache import LEASE_TTL_S, Fetched, SharedCache

from .seeds import many, quick
from .world import World, simulate

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
