"""Ending a background task."""

from __future__ import annotations

import asyncio

import pytest

from searchbus_bus import end_task


async def test_nothing_to_end_is_no_error():
    """Neither without a task nor with one that is done."""
    await end_task(None)
    done = asyncio.create_task(asyncio.sleep(0))
    await done
    await end_task(done)


async def test_a_task_that_loses_cancellations_ends_all_the_same():
    """As asyncio.wait_for of Python 3.11 does."""

    async def stubborn() -> None:
        for _ in range(3):
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                continue

    task = asyncio.create_task(stubborn())
    await asyncio.sleep(0)
    await end_task(task)
    assert task.done()


async def test_the_error_of_a_task_stays_its_own():
    """The caller that ends it goes on."""

    async def fails_on_exit() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            raise ValueError("no")

    task = asyncio.create_task(fails_on_exit())
    await asyncio.sleep(0)
    await end_task(task)
    with pytest.raises(ValueError, match="no"):
        task.result()
