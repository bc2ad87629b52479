"""Pacing within one process."""

from __future__ import annotations

import asyncio
import itertools
import time

import pytest
from tests.simulation.world import VirtualLoop

from searchbus_bus.store.keyvalue import MemoryKeyValue
from searchbus_contracts import Fault
from searchbus_upstream import Pace, SharedPace


async def test_slots_keep_their_distance(monkeypatch):
    """Whichever callers wait, and however many at once; by the times at which they are granted."""
    granted_s = []
    take = Pace._take

    def recorded(pace, now_s):
        granted_s.append(now_s)
        take(pace, now_s)

    monkeypatch.setattr(Pace, "_take", recorded)
    pace = Pace(0.03)
    await asyncio.gather(*(pace.slot(f"c{i % 3}", 10) for i in range(12)))
    gaps = [b - a for a, b in itertools.pairwise(granted_s)]
    assert len(gaps) == 11
    assert min(gaps) > 0.02


async def test_callers_take_turns():
    """A caller with many requests does not keep the others waiting."""
    pace = Pace(0.005)
    order = []

    async def use(caller):
        await pace.slot(caller, 10)
        order.append(caller)

    greedy = [asyncio.create_task(use("greedy")) for _ in range(20)]
    await asyncio.sleep(0)
    await asyncio.gather(use("modest"), use("other"))
    assert order.index("modest") <= 4
    assert order.index("other") <= 5
    await asyncio.gather(*greedy)


async def test_hopeless_wait_is_refused_at_once():
    """With the time until the next slot; a real wait would exceed the test's limit."""
    pace = Pace(5000.0, max_interval_s=5000.0)
    await pace.slot("a", 1)
    with pytest.raises(Fault) as caught:
        async with asyncio.timeout(30):
            await pace.slot("a", 1)
    assert caught.value.code == "overloaded"
    assert 4_900_000 < caught.value.failure.retry_after_ms <= 5_000_000


async def test_cancelled_waits_delay_nobody():
    """A cancelled wait gives its turn to the next."""
    pace = Pace(1.0)
    await pace.slot("a", 1)
    waiting = [asyncio.create_task(pace.slot("a", 100)) for _ in range(50)]  # 50 s together
    await asyncio.sleep(0)
    for task in waiting:
        task.cancel()
    await asyncio.gather(*waiting, return_exceptions=True)
    async with asyncio.timeout(30):
        await pace.slot("b", 100)


def test_pace_slows_down_at_once_and_recovers_by_time():
    """Within its bounds; no requests are needed, of which a slow pace has few."""
    loop = VirtualLoop()

    async def run() -> list[float]:
        pace = Pace(2.5, min_interval_s=2.0, max_interval_s=60)
        found = [pace.interval_s]
        await asyncio.sleep(300)
        found.append(pace.interval_s)
        for _ in range(2):
            pace.refused()
        found.append(pace.interval_s)
        await asyncio.sleep(300)
        found.append(pace.interval_s)
        for _ in range(10):
            pace.refused()
        found.append(pace.interval_s)
        await asyncio.sleep(1500)
        found.append(pace.interval_s)
        return found

    with asyncio.Runner(loop_factory=lambda: loop) as runner:
        assert runner.run(run()) == pytest.approx([2.5, 2.0, 8.0, 4.0, 60.0, 2.0])


def test_wait_that_others_make_longer_ends_in_time():
    """Callers who come later have their turns before a caller's second request."""
    loop = VirtualLoop()

    async def run() -> Fault:
        pace = Pace(10.0)
        await pace.slot("greedy", 60.0)
        waiting = [asyncio.create_task(pace.slot("greedy", 25.0)) for _ in range(2)]
        await asyncio.sleep(1.0)
        others = [asyncio.create_task(pace.slot(f"other {n}", 60.0)) for n in range(3)]
        first, second = await asyncio.gather(*waiting, return_exceptions=True)
        assert first is None
        assert loop.time() == started_s + 25.0
        await asyncio.gather(*others)
        return second

    started_s = loop.time()
    with asyncio.Runner(loop_factory=lambda: loop) as runner:
        refused = runner.run(run())
    assert refused.code == "overloaded"
    assert refused.failure.retry_after_ms > 0


async def test_a_turn_that_comes_in_the_moment_in_which_the_time_ends_counts(monkeypatch):
    """As both do where this process stood still."""
    pace = Pace(10.0)
    await pace.slot("a", 1)
    waiting = asyncio.create_task(pace.slot("a", 60.0))
    await asyncio.sleep(0)
    loop = asyncio.get_running_loop()
    now_s = loop.time
    monkeypatch.setattr(loop, "time", lambda: now_s() + 3600.0)
    await waiting


async def test_those_who_wait_can_be_turned_away():
    """With a failure; those who come later wait for their turns as before."""
    pace = Pace(3600.0)
    await pace.slot("a", 1)
    waiting = [asyncio.create_task(pace.slot(c, 1e6)) for c in "aabb"]
    await asyncio.sleep(0)
    pace.fail_waiting(Fault("upstream_blocked", "no"))
    found = await asyncio.wait_for(asyncio.gather(*waiting, return_exceptions=True), 60)
    assert [fault.code for fault in found] == ["upstream_blocked"] * 4
    assert 3500 < pace.wait_s("a") <= 3600


async def test_zero_switches_it_off():
    """A thousand at once."""
    pace = Pace(0)
    await asyncio.gather(*(pace.slot("a", 0.001) for _ in range(1000)))


@pytest.fixture
def kv():
    return MemoryKeyValue(ttl_s=3600)


async def admitted(pace: SharedPace, requests: int = 10) -> int:
    """How many of some requests are admitted without a wait."""
    count = 0
    for _ in range(requests):
        try:
            await pace.slot(timeout_s=0.0)
            count += 1
        except Fault as fault:
            assert fault.code == "rate_limited"
            assert fault.failure.retry_after_ms > 0
    return count


async def test_replicas_share_one_burst(kv):
    """Together they get what one alone would get."""
    replicas = [SharedPace(kv, "key", rate_per_s=0.001, burst=3) for _ in range(4)]
    assert [await admitted(pace) for pace in replicas] == [3, 0, 0, 0]


async def test_replicas_without_a_store_count_for_themselves():
    """Each keeps the limit by itself."""
    replicas = [SharedPace(None, "key", rate_per_s=0.001, burst=2) for _ in range(3)]
    assert [await admitted(pace) for pace in replicas] == [2, 2, 2]


async def test_store_that_is_away_does_not_lift_the_limit(kv):
    """The replica continues from the last state that it wrote."""
    pace = SharedPace(kv, "key", rate_per_s=0.001, burst=3)
    await pace.slot(timeout_s=0.0)
    kv.away = True
    assert await admitted(pace) == 2


@pytest.fixture
def waits_s(monkeypatch) -> list[float]:
    """What was slept, in seconds; nothing waits."""
    found: list[float] = []
    sleep = asyncio.sleep

    async def recorded(wait_s):
        found.append(wait_s)
        await sleep(0)

    monkeypatch.setattr(asyncio, "sleep", recorded)
    return found


async def test_slot_in_time_is_waited_for(kv, waits_s):
    """One that comes later is refused at once, with the time until then."""
    pace = SharedPace(kv, "key", rate_per_s=0.05)
    for _ in range(3):
        await pace.slot(timeout_s=60.0)
    paused_s = [round(wait_s, -1) for wait_s in waits_s if wait_s > 1]  # the store sleeps for 0 s
    assert paused_s == [20, 40]
    slow = SharedPace(kv, "slow", rate_per_s=0.01)
    await slow.slot(timeout_s=0.0)
    with pytest.raises(Fault) as caught:
        await slow.slot(timeout_s=50.0)
    assert 90_000 < caught.value.failure.retry_after_ms <= 100_001


async def test_pause_holds_for_every_replica(kv):
    """Whichever of them received the refusal."""
    one, other = (SharedPace(kv, "key", rate_per_s=1000.0, burst=5) for _ in range(2))
    await one.slot(timeout_s=0.0)
    await one.pause(500.0)
    assert await admitted(other) == 0
    assert await admitted(one) == 0


@pytest.mark.parametrize("shared", [True, False])
async def test_clock_that_is_set_back_lengthens_no_wait(kv, monkeypatch, shared):
    """Neither for the next slot, nor of a pause; the limit holds all the same."""
    now_s = 1_000_000.0
    monkeypatch.setattr(time, "time", lambda: now_s)
    pace = SharedPace(kv if shared else None, "key", rate_per_s=0.1)
    for pause_s, least_ms in ((0.0, 10_000), (500.0, 500_000)):
        if not pause_s:
            await pace.slot(timeout_s=0.0)
        await pace.pause(pause_s)
        now_s -= 3600
        with pytest.raises(Fault) as caught:
            await pace.slot(timeout_s=0.0)
        assert least_ms <= caught.value.failure.retry_after_ms <= least_ms + 1


async def test_clocks_that_differ_let_no_more_through(kv, monkeypatch, waits_s):
    """Of two hosts whose requests wait by turns, 20 take 19 seconds, but for what they differ."""
    replicas = [SharedPace(kv, "key", rate_per_s=1) for _ in range(2)]
    for _ in range(10):
        for now_s, pace in zip((1_000_000.0, 1_000_000.9), replicas, strict=True):
            monkeypatch.setattr(time, "time", lambda now_s=now_s: now_s)
            await pace.slot(timeout_s=60.0)
    assert 18 < max(waits_s) < 20


async def test_zero_switches_the_limit_off(kv):
    """No state is written."""
    pace = SharedPace(kv, "key", rate_per_s=0)
    assert await admitted(pace, 100) == 100
    assert await kv.keys() == []


async def test_damaged_state_is_ignored(kv):
    """The replica counts for itself."""
    await kv.put("key", b"not a number")
    assert await admitted(SharedPace(kv, "key", rate_per_s=0.001, burst=2)) == 2
