"""Ending a background task for good."""

from __future__ import annotations

import asyncio

__all__ = ["end_task"]

_AGAIN_S = 0.2


async def end_task(task: asyncio.Task[None] | None) -> None:
    """Cancel a task until it is done; nothing happens without one.

    Once is not enough: `asyncio.wait_for` before Python 3.12, which nats-py uses, loses a
    cancellation that comes together with its result, and a loop would go on for ever.
    """
    while task is not None and not task.done():
        task.cancel()
        await asyncio.wait([task], timeout=_AGAIN_S)
