"""Hedged reads: slow replies are overtaken, the extra load is limited, the slower call ends."""

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


async def test_the_second_request_overtakes_a_slow_first_one():
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

    async with asyncio.timeout(60):
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


async def test_no_second_request_without_enough_samples():
    """A failure is that of the first request."""
    hedge = Hedge()

    async def fails() -> None:
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        await hedge.run(fails)
    assert hedge.after_s is None


async def test_cancelling_cancels_both():
    """Nothing runs on after the caller left."""
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
