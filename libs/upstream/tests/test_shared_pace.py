"""One rate limit over several replicas."""

from __future__ import annotations

import asyncio

import pytest

from searchbus_bus.store.keyvalue import MemoryKeyValue
from searchbus_contracts import Fault
from searchbus_upstream import SharedPace


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


async def test_slot_in_time_is_waited_for(kv, monkeypatch):
    """One that comes later is refused at once, with the time until then."""
    waits_s = []
    sleep = asyncio.sleep

    async def recorded(wait_s):
        waits_s.append(wait_s)
        await sleep(0)

    monkeypatch.setattr(asyncio, "sleep", recorded)
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


async def test_zero_switches_the_limit_off(kv):
    """No state is written."""
    pace = SharedPace(kv, "key", rate_per_s=0)
    assert await admitted(pace, 100) == 100
    assert await kv.keys() == []


async def test_damaged_state_is_ignored(kv):
    """The replica counts for itself."""
    await kv.put("key", b"not a number")
    assert await admitted(SharedPace(kv, "key", rate_per_s=0.001, burst=2)) == 2
