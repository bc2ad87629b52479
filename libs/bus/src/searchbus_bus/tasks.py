"""Ending tasks reliably, and waiting with a limit."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Coroutine
from typing import Any, TypeVar

T = TypeVar("T")

_CANCEL_AGAIN_S = 0.2
_WAITS = 8
_TURNS_OF_A_REPLY = 16
"""Turns of the event loop, generously: from the socket to the task that waits for the reply."""


class Background(set["asyncio.Task[None]"]):
    """Tasks that nobody waits for. They are kept until they end: the loop itself does not."""

    def start(self, work: Coroutine[Any, Any, None]) -> None:
        """Run it as a task."""
        task = asyncio.get_running_loop().create_task(work)
        self.add(task)
        task.add_done_callback(self.discard)


async def end_task(task: asyncio.Task[Any] | None) -> None:
    """Cancel a task until it is done; None is allowed and does nothing.

    One cancel is not enough: `asyncio.wait_for` before Python 3.12, which nats-py uses, loses a
    cancellation that arrives together with its result, and the task would run for ever.
    """
    while task is not None and not task.done():
        task.cancel()
        await asyncio.wait([task], timeout=_CANCEL_AGAIN_S)


async def all_of(*work: Coroutine[Any, Any, T]) -> list[T]:
    """All results; where one fails the others end first, which `asyncio.gather` does not await."""
    tasks = [asyncio.get_running_loop().create_task(each) for each in work]
    try:
        return await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        for task in tasks:
            await end_task(task)


async def wait_for_event(event: asyncio.Event, timeout_s: float | None) -> bool:
    """Wait until an event is set; False where that takes longer than `timeout_s`, if any."""
    try:
        async with asyncio.timeout(timeout_s):
            await event.wait()
    except TimeoutError:
        return False
    return True


async def within(operation: Awaitable[T], timeout_s: float) -> T:
    """The result of an operation that waits for a server; raises TimeoutError after `timeout_s`, as
    `waited_for` counts them."""
    task = asyncio.ensure_future(operation)
    try:
        await waited_for(task, timeout_s)
        if not task.done():
            raise TimeoutError
        return task.result()
    finally:
        task.cancel()


async def waited_for(future: asyncio.Future[Any], timeout_s: float) -> float:
    """Wait until a future is done, at most `timeout_s`; how long it was waited for, in seconds.

    Waits are counted, not the clock: of the time in which this process stood still, or the machine
    with the server on it, an eighth of `timeout_s` counts at most.
    """
    loop, most_s = asyncio.get_running_loop(), timeout_s / _WAITS
    for wait in range(_WAITS):
        began_s = loop.time()
        await asyncio.wait({future}, timeout=most_s)
        if await has_arrived(future):
            return wait * most_s + min(most_s, loop.time() - began_s)
    return timeout_s


async def has_arrived(future: asyncio.Future[Any]) -> bool:
    """Whether a future is done, once what lies in the socket is read: after a busy moment of this
    process a timeout ends before the replies that came in time are read."""
    for _ in range(_TURNS_OF_A_REPLY):
        if future.done():
            break
        await asyncio.sleep(0)
    return future.done()
