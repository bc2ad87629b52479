"""Ending tasks, and waiting with a limit."""

from __future__ import annotations

import asyncio
import socket

import pytest

from searchbus_bus import end_task
from searchbus_bus.tasks import all_of, within


async def test_all_results_are_in_the_order_of_the_work():
    """Whichever ends first."""
    second_is_done = asyncio.Event()

    async def first() -> int:
        await second_is_done.wait()
        return 1

    async def second() -> int:
        second_is_done.set()
        return 2

    assert await all_of(first(), second()) == [1, 2]


@pytest.mark.parametrize("cancelled", [False, True])
async def test_what_runs_beside_a_failure_has_ended_when_it_is_raised(cancelled):
    """And so has everything when the caller is cancelled."""
    running, ended = asyncio.Event(), []

    async def work() -> None:
        running.set()
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            ended.append("work")

    async def fail() -> None:
        await running.wait()
        if cancelled:
            await asyncio.Event().wait()
        raise ValueError

    both = asyncio.create_task(all_of(work(), fail()))
    await running.wait()
    if cancelled:
        both.cancel()
    with pytest.raises(asyncio.CancelledError if cancelled else ValueError):
        await both
    assert ended == ["work"]


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


async def test_an_operation_ends_at_its_limit_and_is_cancelled():
    """Its result and its error are those of the operation."""
    ended = asyncio.Event()

    async def hang() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    with pytest.raises(TimeoutError):
        await within(hang(), 0.01)
    await ended.wait()

    async def fail() -> None:
        raise ValueError("own")

    with pytest.raises(ValueError, match="own"):
        await within(fail(), 60)


async def test_a_reply_that_arrived_in_time_counts_although_the_loop_was_busy(monkeypatch):
    """It is read after the limit."""
    ours, theirs = socket.socketpair()
    reader, writer = await asyncio.open_connection(sock=ours)

    async def relayed(times: int) -> bytes:
        """Over some tasks, as a reply reaches a request in nats-py."""
        if not times:
            return await reader.readline()
        return await asyncio.create_task(relayed(times - 1))

    asking = asyncio.create_task(within(relayed(5), 60))
    for _ in range(10):
        await asyncio.sleep(0)
    theirs.sendall(b"reply\n")
    now_s = asyncio.get_running_loop().time
    monkeypatch.setattr(asyncio.get_running_loop(), "time", lambda: now_s() + 61)
    assert await asking == b"reply\n"
    writer.close()
    theirs.close()


async def test_time_in_which_everything_stood_still_is_not_waited(monkeypatch):
    """The server had none of it either: its next step comes a moment later."""

    async def served() -> str:
        for _ in range(3):
            await asyncio.sleep(0.01)
        return "served"

    loop = asyncio.get_running_loop()
    asking = asyncio.create_task(within(served(), 60))
    for _ in range(3):
        await asyncio.sleep(0)
    now_s = loop.time
    monkeypatch.setattr(loop, "time", lambda: now_s() + 61)
    assert await asking == "served"


async def test_what_never_comes_is_waited_for_in_parts_that_make_the_limit(monkeypatch):
    """Also a small one."""
    waits = []
    wait = asyncio.wait

    async def counted(tasks, *, timeout):
        waits.append(timeout)
        return await wait(tasks, timeout=timeout)

    monkeypatch.setattr(asyncio, "wait", counted)
    with pytest.raises(TimeoutError):
        await within(asyncio.Event().wait(), 0.1)
    assert sum(waits) == pytest.approx(0.1)
