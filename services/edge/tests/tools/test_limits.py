"""Limits hold over all edges, are fair between callers, and fail as configured."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from searchbus_bus import end_task
from searchbus_bus.store.keyvalue import MemoryKeyValue
from searchbus_contracts import Fault
from searchbus_edge.tools import limits
from searchbus_edge.tools.limits import LocalLimiter, SharedLimiter


class Clock:
    """For a test with generated values."""

    now_s = 1000.0

    def __call__(self) -> float:
        return self.now_s


async def admitted(limiter, caller="alice") -> bool:
    try:
        await limiter.admit(caller)
    except Fault as fault:
        assert fault.code == "rate_limited"
        assert fault.failure.retry_after_ms >= 1
        return False
    return True


def edges(number, rate, burst, clock, **options):
    kv = MemoryKeyValue(ttl_s=3600, clock=clock)
    return kv, [SharedLimiter("x", kv, rate, burst, clock=clock, **options) for _ in range(number)]


async def test_three_edges_admit_no_more_than_one(clock):
    """Over-admission at most 5 %, and most of the limit is used."""
    _, limiters = edges(3, 20.0, 20, clock)
    count = 0
    for step in range(6000):  # a minute at a hundred a second
        count += await admitted(limiters[step % 3])
        clock.now_s += 0.01
    allowed = 20 * 60 + 20
    assert 0.85 * allowed <= count <= 1.05 * allowed


async def test_one_greedy_caller_takes_nothing_from_nine_others(clock):
    """Jain's index of what they get is nearly one."""
    _, limiters = edges(3, 5.0, 5, clock)
    got = dict.fromkeys(range(10), 0)
    for step in range(3000):  # half a minute; the first asks twenty times as often
        for caller in range(10):
            for _ in range(20 if caller == 0 else 1):
                got[caller] += await admitted(limiters[step % 3], f"c{caller}")
        clock.now_s += 0.1
        if step == 300:
            break
    values = list(got.values())
    assert sum(values) ** 2 / (len(values) * sum(v * v for v in values)) >= 0.98


async def test_unreachable_store_counts_here_or_refuses(clock):
    """As the limit says: a free tool goes on, one that costs money does not."""
    kv, (limiter,) = edges(1, 10.0, 10, clock)
    closed = SharedLimiter("y", kv, 10.0, 10, clock=clock, fail_closed=True)
    kv.away = True
    assert sum([await admitted(limiter) for _ in range(50)]) == 10
    assert not await admitted(closed)
    kv.away = False
    clock.now_s += 5
    assert await admitted(closed)


async def test_many_at_once_are_counted_once_each(clock):
    """Concurrent callers of one process share its lease."""
    _, limiters = edges(3, 100.0, 100, clock)
    results = await asyncio.gather(*(admitted(limiters[n % 3]) for n in range(400)))
    assert 90 <= sum(results) <= 105


@settings(max_examples=60)
@given(st.lists(st.floats(0, 2), min_size=1, max_size=120), st.floats(0.5, 50), st.integers(1, 30))
def test_bucket_never_admits_more_than_rate_and_burst(pauses, rate, burst):
    """In any window that starts now."""
    clock = Clock()
    limiter = LocalLimiter(rate, burst, clock=clock)

    async def run() -> int:
        count = 0
        for pause in pauses:
            clock.now_s += pause
            count += await admitted(limiter)
        return count

    assert asyncio.run(run()) <= burst + rate * sum(pauses) + 1


class Hanging(MemoryKeyValue):
    """Answers nothing while `hangs`; counts its requests."""

    hangs = False
    requests = 0

    async def _round_trip(self) -> None:
        self.requests += 1
        if self.hangs:
            await asyncio.Event().wait()
        await super()._round_trip()


async def test_requests_do_not_wait_behind_each_other_for_a_store_that_hangs(clock):
    """They share one request to it, which may end later; each counts here meanwhile."""
    store = Hanging(ttl_s=3600, clock=clock)
    limiter = SharedLimiter("x", store, 10.0, 50, clock=clock)
    store.hangs = True
    results = await asyncio.gather(*(admitted(limiter) for _ in range(200)))
    assert sum(results) == 50
    assert store.requests == 1
    await end_task(limiter._taking["alice"])


class Slow(MemoryKeyValue):
    """Each round trip takes a moment."""

    async def _round_trip(self) -> None:
        await asyncio.sleep(0.02)
        await super()._round_trip()


async def test_who_would_refuse_waits_longer_for_a_store_that_is_slow(clock, monkeypatch):
    """A call that costs money is not refused for a hiccup."""
    monkeypatch.setattr(limits, "_WAIT_S", 0.001)
    store = Slow(ttl_s=3600, clock=clock)
    limiter = SharedLimiter("x", store, 10.0, 10, clock=clock, fail_closed=True)
    assert await admitted(limiter)


async def test_one_failure_of_the_store_refuses_one_call(clock):
    """It may answer the next one, also at the same moment."""
    store, (limiter,) = edges(1, 10.0, 10, clock, fail_closed=True)
    store.away = True
    assert not await admitted(limiter)
    store.away = False
    assert await admitted(limiter)


async def test_nothing_is_left_of_callers_that_left(clock):
    """Also while the store is unreachable, when no lease is ever taken."""
    store, (limiter,) = edges(1, 10.0, 10, clock)
    for away in (True, False):
        store.away = away
        for number in range(1000):
            assert await admitted(limiter, f"caller-{number}")
        await asyncio.sleep(0)
        assert not limiter._taking


async def test_a_caller_gets_no_new_burst_when_the_store_goes_or_comes(clock):
    """What was admitted is known on both sides, also if the store lost its memory."""
    store, (limiter,) = edges(1, 10.0, 20, clock)
    assert sum([await admitted(limiter) for _ in range(30)]) == 20
    store.away = True
    assert not await admitted(limiter)
    clock.now_s += 1.0
    assert sum([await admitted(limiter) for _ in range(30)]) == 10
    store.away = False
    store._entries.clear()
    assert not await admitted(limiter)
    clock.now_s += 1.0
    assert sum([await admitted(limiter) for _ in range(30)]) == 10


async def test_an_only_edge_counts_without_the_store_except_where_calls_cost_money(clock):
    """A call that comes alone waits for no request to the store."""
    store = View(MemoryKeyValue(ttl_s=3600, clock=clock))
    free, costly = (
        SharedLimiter("x", store, 10.0, 10, clock=clock, edges=lambda: 1, fail_closed=costly)
        for costly in (False, True)
    )
    assert sum([await admitted(free) for _ in range(50)]) == 10
    assert not store.asked
    assert await admitted(costly)
    assert store.asked


async def test_what_an_only_edge_admitted_counts_when_a_second_one_joins(clock):
    """Both admit a burst more together, at most, and then what the limit says."""
    store, count = MemoryKeyValue(ttl_s=3600, clock=clock), 1
    first, second = (
        SharedLimiter("x", store, 10.0, 10, clock=clock, edges=lambda: count) for _ in range(2)
    )
    assert sum([await admitted(first) for _ in range(50)]) == 10
    count = 2
    assert not await admitted(first)
    got = 0
    for step in range(3000):  # half a minute
        got += await admitted((first, second)[step % 2])
        clock.now_s += 0.01
    assert 0.85 * 300 <= got <= 1.05 * 310


async def test_calls_before_a_second_edge_joined_are_not_held_against_a_caller(clock):
    """It keeps to its limit, and comes to the first edge again after a minute at the second."""
    store, count = MemoryKeyValue(ttl_s=3600, clock=clock), 1
    first, second = (
        SharedLimiter("x", store, 10.0, 10, clock=clock, edges=lambda: count) for _ in range(2)
    )

    async def a_minute_at(edge: SharedLimiter) -> int:
        got = 0
        for _ in range(60):
            clock.now_s += 1.0
            got += await admitted(edge)
        return got

    assert await a_minute_at(first) == 60
    count = 2
    assert await a_minute_at(second) == 60
    assert await admitted(first)


async def test_edges_share_the_limit_while_the_store_is_away(clock):
    """Three of them admit no more than one, before, meanwhile and after."""
    store = MemoryKeyValue(ttl_s=3600, clock=clock)
    limiters = [SharedLimiter("x", store, 20.0, 30, clock=clock, edges=lambda: 3) for _ in range(3)]
    count = 0
    for step in range(6000):  # a minute at a hundred a second; the store is away for a third of it
        store.away = 2000 <= step < 4000
        count += await admitted(limiters[step % 3])
        clock.now_s += 0.01
    allowed = 20 * 60 + 30
    assert 0.85 * allowed <= count <= 1.05 * allowed


class View:
    """The store as one edge sees it, which may be cut off alone."""

    away = False
    asked = 0

    def __init__(self, store: MemoryKeyValue) -> None:
        self._store = store

    def __getattr__(self, name: str):
        self.asked += 1
        if self.away:
            raise Fault("unavailable", "The key-value store is away.")
        return getattr(self._store, name)


@pytest.mark.parametrize("all_away_s", [0, 5])
async def test_what_an_edge_admitted_alone_is_counted_when_it_is_back(clock, all_away_s):
    """One of three edges sees the store later than the others, or loses it alone."""
    store = MemoryKeyValue(ttl_s=3600, clock=clock)
    views = [View(store) for _ in range(3)]
    limiters = [SharedLimiter("x", view, 20.0, 20, clock=clock, edges=lambda: 3) for view in views]
    count = 0
    for step in range(3000):  # half a minute at a hundred a second
        store.away = 1000 <= step < 1000 + 100 * all_away_s
        views[0].away = 1000 <= step < 1500 + 100 * all_away_s
        count += await admitted(limiters[step % 3])
        clock.now_s += 0.01
    assert 0.85 * (20 * 30 + 20) <= count <= 20 * 30 + 20


async def test_the_time_alone_costs_a_caller_seconds_not_minutes(clock):
    """After ten minutes that one edge was cut off, while others served the same caller."""
    store = MemoryKeyValue(ttl_s=3600, clock=clock)
    views = [View(store) for _ in range(2)]
    limiters = [SharedLimiter("x", view, 10.0, 10, clock=clock, edges=lambda: 2) for view in views]
    views[0].away = True
    for step in range(6000):
        await admitted(limiters[step % 2])
        clock.now_s += 0.1
    views[0].away = False
    clock.now_s += 0.3  # the store is asked again
    assert not await admitted(limiters[0])
    clock.now_s += 6.0
    assert await admitted(limiters[0])


async def test_rate_zero_switches_a_limit_off(clock):
    """Local and shared."""
    _, (shared,) = edges(1, 0, 1, clock)
    for limiter in (LocalLimiter(0, 1, clock=clock), shared):
        assert all([await admitted(limiter) for _ in range(100)])


async def test_callers_seen_longest_ago_are_forgotten(clock, monkeypatch):
    """Memory is bounded; a refused caller counts as seen."""
    monkeypatch.setattr(limits, "_MAX_LOCAL_CALLERS", 2)
    limiter = LocalLimiter(0.5, 1, clock=clock)
    assert await admitted(limiter, "a")
    assert await admitted(limiter, "b")
    assert not await admitted(limiter, "a")
    assert await admitted(limiter, "c")  # in the place of b
    assert not await admitted(limiter, "a")
    assert await admitted(limiter, "b")


async def test_time_to_wait_is_enough_and_not_a_second_more(clock):
    """After it, one request is admitted."""
    limiter = LocalLimiter(0.5, 1, clock=clock)
    assert await admitted(limiter)
    with pytest.raises(Fault) as caught:
        await limiter.admit("alice")
    wait_ms = caught.value.failure.retry_after_ms
    assert 2000 <= wait_ms <= 2001
    clock.now_s += wait_ms / 1000
    assert await admitted(limiter)
    assert not await admitted(limiter)


@pytest.mark.parametrize("away", [False, True])
async def test_a_clock_that_is_set_back_locks_nobody_out(clock, away):
    """Callers wait for seconds, and not until the clock is where it was; also without the store."""
    store, (limiter,) = edges(1, 10.0, 20, clock)
    assert await admitted(limiter)
    store.away = away
    clock.now_s -= 3000
    while await admitted(limiter):
        pass
    clock.now_s += 8.0
    assert await admitted(limiter)
