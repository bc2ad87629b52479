"""The shared cache: one request for equal questions, no error kept, nobody taken along."""

from __future__ import annotations

import asyncio

import pytest

from searchbus_bus.keyvalue_memory import MemoryKeyValue
from searchbus_contracts import ErrorCode, Fault
from searchbus_upstream import SharedCache


class Upstream:
    """Counts what it is asked; fails while told so."""

    def __init__(self, seconds: float = 0.05) -> None:
        self.calls = 0
        self.cancelled = 0
        self.seconds = seconds
        self.failure: Fault | None = None

    async def __call__(self) -> bytes:
        self.calls += 1
        try:
            await asyncio.sleep(self.seconds)
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        if self.failure is not None:
            raise self.failure
        return b"answer %d" % self.calls


@pytest.fixture
def buckets():
    return MemoryKeyValue(ttl_s=60), MemoryKeyValue(ttl_s=20)


@pytest.fixture
def upstream():
    return Upstream()


async def ask(cache, upstream, question="q", fresh_s=60.0, stale_s=600.0):
    return await cache.get(question, upstream, fresh_s=fresh_s, stale_s=stale_s)


@pytest.mark.parametrize("shared", [True, False])
async def test_equal_questions_at_once_cost_one_request(buckets, upstream, shared):
    """A hundred over four workers; later ones are answered from memory."""
    caches = [SharedCache(*buckets) if shared else SharedCache() for _ in range(4 if shared else 1)]
    answers = await asyncio.gather(*(ask(caches[i % len(caches)], upstream) for i in range(100)))
    assert upstream.calls == 1
    assert {answer.value for answer in answers} == {b"answer 1"}
    assert (await ask(caches[-1], upstream)).hit
    await ask(caches[0], upstream, question="other")
    assert upstream.calls == 2


async def test_failure_is_told_to_those_who_wait_and_not_kept(buckets, upstream):
    """One request for all of them; the next question asks again."""
    upstream.failure = Fault(ErrorCode.UPSTREAM_FAILED, "down")
    caches = [SharedCache(*buckets) for _ in range(3)]
    outcomes = await asyncio.gather(
        *(ask(cache, upstream) for cache in caches * 5), return_exceptions=True
    )
    assert all(isinstance(o, Fault) and o.code == "upstream_failed" for o in outcomes)
    assert upstream.calls == 1
    upstream.failure = None
    assert (await ask(caches[1], upstream)).value == b"answer 2"


async def test_old_answer_is_given_and_labelled_while_the_upstream_fails(buckets, upstream):
    """But not for ever."""
    now_s = [1000.0]
    cache = SharedCache(*buckets, clock=lambda: now_s[0])
    await ask(cache, upstream)
    upstream.failure = Fault(ErrorCode.UPSTREAM_BLOCKED, "refused")
    now_s[0] += 100
    stale = await ask(cache, upstream)
    assert (stale.value, stale.stale, stale.why_stale) == (b"answer 1", True, "refused")
    now_s[0] += 1000
    with pytest.raises(Fault):
        await ask(cache, upstream)


async def test_first_asker_may_leave(buckets):
    """The others still get the answer; when all have left, the request ends."""
    upstream = Upstream(0.2)
    cache, other = SharedCache(*buckets), SharedCache(*buckets)
    asking = [asyncio.create_task(ask(c, upstream)) for c in (cache, cache, other)]
    await asyncio.sleep(0.05)
    asking[0].cancel()
    assert (await asking[1]).value == (await asking[2]).value == b"answer 1"
    assert (upstream.calls, upstream.cancelled) == (1, 0)
    alone = asyncio.create_task(ask(cache, upstream, question="alone"))
    await asyncio.sleep(0.05)
    alone.cancel()
    await asyncio.gather(alone, return_exceptions=True)
    await asyncio.sleep(0.05)
    assert upstream.cancelled == 1
    assert (await ask(other, upstream, question="alone")).value == b"answer 3"


async def test_failure_of_ones_own_budget_is_not_the_others(buckets):
    """Whoever waited along tries for itself."""
    cache = SharedCache(*buckets)
    upstream = Upstream()
    upstream.failure = Fault(ErrorCode.OVERLOADED, "no turn in time")
    first = asyncio.create_task(ask(cache, upstream))
    await asyncio.sleep(0.01)
    second = asyncio.create_task(ask(cache, upstream))
    with pytest.raises(Fault):
        await asyncio.wait_for(first, 1)
    upstream.failure = None
    assert (await second).value == b"answer 2"


async def test_shared_memory_that_goes_away_is_no_failure(buckets, upstream):
    """Every worker goes on for itself."""
    cache = SharedCache(*buckets)
    buckets[0].away = buckets[1].away = True
    assert (await ask(cache, upstream)).value == b"answer 1"
    assert (await ask(cache, upstream)).hit
    buckets[0].away = buckets[1].away = False
    assert (await ask(SharedCache(*buckets), upstream)).value == b"answer 2"


async def test_local_memory_has_a_limit(upstream):
    """The oldest go first."""
    cache = SharedCache(local_bytes=30)
    for number in range(10):
        await ask(cache, upstream, question=str(number))
    await ask(cache, upstream, question="9")
    assert upstream.calls == 10
    await ask(cache, upstream, question="0")
    assert upstream.calls == 11
