"""Events of a call on their way to its client."""

from __future__ import annotations

import asyncio

import pytest

from searchbus_contracts import ToolEvent
from searchbus_edge.mcp.client import sending
from searchbus_edge.tools import call as events
from searchbus_edge.tools.call import (
    ForwardedEvents,
)


def progress(step: float) -> ToolEvent:
    return ToolEvent(kind="progress", progress=step, total=3.0, message=f"step {step:.0f}")


async def test_events_are_sent_in_order_before_the_end(context):
    """Progress and log lines."""
    ctx = context()
    async with ForwardedEvents(sending(ctx)) as on_event:
        on_event(progress(1))
        on_event(ToolEvent(kind="log", level="info", data={"a": 1}, logger="x"))
        on_event(progress(2))
    assert ctx.sent == [(1, 3, "step 1"), ("info", {"a": 1}, "x"), (2, 3, "step 2")]


async def test_event_that_cannot_be_sent_is_dropped(context):
    """The result counts, and so do later events."""
    ctx = context()
    real = ctx.session.report_progress

    async def fail_first(step, total, message):
        if step == 1:
            raise ConnectionError
        await real(step, total, message)

    ctx.session.report_progress = fail_first
    async with ForwardedEvents(sending(ctx)) as on_event:
        on_event(progress(1))
        on_event(progress(2))
    assert ctx.sent == [(2, 3, "step 2")]


async def test_failed_call_stops_the_forwarding(context):
    """No task is left behind, also for a client that does not read."""
    ctx = context()
    blocked = asyncio.Event()

    async def block(*_):
        await blocked.wait()

    ctx.session.report_progress = block
    before = asyncio.all_tasks()
    with pytest.raises(RuntimeError):
        async with ForwardedEvents(sending(ctx)) as on_event:
            on_event(progress(1))
            await asyncio.sleep(0)
            raise RuntimeError
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert asyncio.all_tasks() == before


async def test_client_that_leaves_without_reading_leaves_no_task(context, monkeypatch):
    """The call has ended, and its events wait; then the client's connection closes."""
    monkeypatch.setattr(events, "MAX_PENDING_EVENTS", 1)
    ctx = context()

    async def block(*_):
        await asyncio.Event().wait()

    ctx.session.report_progress = block
    before = asyncio.all_tasks()

    async def call():
        async with ForwardedEvents(sending(ctx)) as on_event:
            for step in range(3):
                on_event(progress(step))
                await asyncio.sleep(0)

    calling = asyncio.create_task(call())
    while len(asyncio.all_tasks()) < len(before) + 2:
        await asyncio.sleep(0)
    for _ in range(5):  # until it waits for a place in the queue
        await asyncio.sleep(0)
    calling.cancel()
    await asyncio.wait([calling])
    await asyncio.sleep(0)
    assert calling.cancelled()
    assert asyncio.all_tasks() == before


async def test_pending_events_are_limited(context, monkeypatch):
    """Events beyond the limit are lost."""
    monkeypatch.setattr(events, "MAX_PENDING_EVENTS", 3)
    ctx = context()
    async with ForwardedEvents(sending(ctx)) as on_event:
        for step in range(10):
            on_event(progress(step))
    assert [step for step, *_ in ctx.sent] == [0, 1, 2]
