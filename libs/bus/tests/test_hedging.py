"""Hedged reads: the tail is cut, the extra load is bounded, losers end."""

from __future__ import annotations

import asyncio

import pytest

from searchbus_bus import Hedge


async def quick() -> str:
    await asyncio.sleep(0.001)
    return "quick"


async def trained() -> Hedge:
    hedge = Hedge(least_s=0.01)
    for _ in range(60):
        await hedge.run(quick)
    return hedge


async def test_second_request_answers_for_a_slow_first():
    """And the first is cancelled."""
    hedge = await trained()
    cancelled = []
    calls = 0

    async def sometimes_slow() -> str:
        nonlocal calls
        calls += 1
        try:
            await asyncio.sleep(30 if calls == 1 else 0.001)
        except asyncio.CancelledError:
            cancelled.append(calls)
            raise
        return f"call {calls}"

    async with asyncio.timeout(2):
        assert await hedge.run(sometimes_slow) == "call 2"
    assert cancelled


async def test_extra_load_is_a_twentieth_at_most():
    """However slow everything becomes."""
    hedge = await trained()
    calls = 0

    async def slow() -> None:
        nonlocal calls
        calls += 1
        await asyncio.sleep(0.05)

    start = hedge.hedged
    await asyncio.gather(*(hedge.run(slow) for _ in range(200)))
    assert hedge.hedged - start <= 200 * 0.05 + 5


async def test_no_hedge_before_there_is_anything_to_go_by():
    """And failures are the first request's own."""
    hedge = Hedge()

    async def fails() -> None:
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        await hedge.run(fails)
    assert hedge.after_s is None


async def test_cancelling_cancels_both():
    """Nothing goes on behind the caller's back."""
    hedge = await trained()
    running = 0

    async def slow() -> None:
        nonlocal running
        running += 1
        try:
            await asyncio.sleep(30)
        finally:
            running -= 1

    task = asyncio.create_task(hedge.run(slow))
    await asyncio.sleep(0.1)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert running == 0


async def test_task_that_loses_a_cancellation_ends_all_the_same():
    """As asyncio.wait_for of Python 3.11 does."""
    from searchbus_bus import end_task

    async def stubborn() -> None:
        for _ in range(3):
            try:
                await asyncio.sleep(30)
            except asyncio.CancelledError:
                continue

    task = asyncio.create_task(stubborn())
    await asyncio.sleep(0)
    async with asyncio.timeout(5):
        await end_task(task)
    assert task.done()
