"""Pace and breaker."""

from __future__ import annotations

import asyncio
import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from searchbus_contracts import Fault
from searchbus_upstream import Breaker, Pace


async def test_slots_keep_their_distance():
    """Whoever asks, and however many at once."""
    pace = Pace(0.03)
    loop = asyncio.get_running_loop()
    times = []

    async def use(caller):
        await pace.slot(caller, 10)
        times.append(loop.time())

    await asyncio.gather(*(use(f"c{i % 3}") for i in range(12)))
    gaps = [b - a for a, b in itertools.pairwise(times)]
    assert min(gaps) > 0.02


async def test_callers_take_turns():
    """One who asks for much does not keep the others waiting."""
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
    """With the time after which it makes sense to come again."""
    pace = Pace(5.0)
    await pace.slot("a", 1)
    with pytest.raises(Fault) as caught:
        async with asyncio.timeout(0.5):
            await pace.slot("a", 1)
    assert caught.value.code == "overloaded"
    assert 4000 < caught.value.failure.retry_after_ms <= 5000


async def test_those_who_leave_hold_nobody_up():
    """A cancelled wait gives its turn to the next."""
    pace = Pace(0.02)
    await pace.slot("a", 1)
    waiting = [asyncio.create_task(pace.slot("a", 10)) for _ in range(50)]
    await asyncio.sleep(0)
    for task in waiting:
        task.cancel()
    await asyncio.gather(*waiting, return_exceptions=True)
    async with asyncio.timeout(0.5):
        await pace.slot("b", 1)


async def test_pace_slackens_at_once_and_quickens_slowly():
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


def test_breaker_rests_probes_and_closes():
    """One probe at a time; each failed one doubles the rest."""
    now_s = [100.0]
    breaker = Breaker(clock=lambda: now_s[0])
    assert breaker.closed
    assert breaker.refused(60) == 60
    assert breaker.refused(60) == 60  # an answer that was under way
    assert not breaker.try_probe()
    now_s[0] += 61
    assert not breaker.closed
    assert breaker.try_probe()
    assert not breaker.try_probe()
    assert breaker.refused(60) == 120
    now_s[0] += 121
    assert breaker.try_probe()
    breaker.succeeded()
    assert breaker.closed
    assert breaker.refused(60) == 60


@given(st.lists(st.sampled_from(["refused", "succeeded", "probe", "wait"]), max_size=60))
def test_breaker_never_lets_through_while_it_rests(steps):
    """Whatever happens in whatever order."""
    now_s = [0.0]
    breaker = Breaker(clock=lambda: now_s[0], max_s=1000)
    for step in steps:
        if step == "refused":
            assert breaker.refused(10) <= 1000
        elif step == "succeeded":
            breaker.succeeded()
        elif step == "probe":
            assert not (breaker.try_probe() and breaker.remaining_s > 0)
        else:
            now_s[0] += 7
        assert breaker.remaining_s <= 1000
        if breaker.remaining_s > 0:
            assert not breaker.closed
