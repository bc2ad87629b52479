"""Pacing within one process."""

from __future__ import annotations

import asyncio
import itertools

import pytest

from searchbus_contracts import Fault
from searchbus_upstream import Pace


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


async def test_pace_slows_down_at_once_and_speeds_up_slowly():
    """Within its bounds."""
    pace = Pace(2.0, min_interval_s=1.5, max_interval_s=10)
    for _ in range(1000):
        pace.succeeded()
    assert pace.interval_s == 1.5
    pace.refused()
    assert pace.interval_s == 3.0
    for _ in range(9):
        pace.refused()
    assert pace.interval_s == 10


async def test_zero_switches_it_off():
    """A thousand at once."""
    pace = Pace(0)
    await asyncio.gather(*(pace.slot("a", 0.001) for _ in range(1000)))
