"""Ending a background task reliably, and waiting for an event with a limit."""

from __future__ import annotations

import asyncio

__all__ = ["end_task", "wait_for_event"]

_CANCEL_AGAIN_S = 0.2


async def end_task(task: asyncio.Task[None] | None) -> None:
    """Cancel a task until it is done; None is allowed and does nothing.

    One cancel is not enough: `asyncio.wait_for` before Python 3.12, which nats-py uses, loses a
    cancellation that arrives together with its result, and the task would run for ever.
    """
    while task is not None and not task.done():
        task.cancel()
        await asyncio.wait([task], timeout=_CANCEL_AGAIN_S)


async def wait_for_event(event: asyncio.Event, timeout_s: float) -> bool:
    """Wait until an event is set; False where that takes longer than `timeout_s`."""
    try:
        async with asyncio.timeout(timeout_s):
            await event.wait()
    except TimeoutError:
        return False
    return True
