"""Several sources at once, each with its share of the time."""

from __future__ import annotations

import asyncio

import pytest

from searchbus_contracts import ErrorCode, Fault
from searchbus_edge.composites.fanout import SHARE, request_all


async def test_replies_and_failures_are_told_apart():
    """In the order of the requests; a reply that cannot be read is a failure."""

    async def good(timeout_s):
        await asyncio.sleep(0.01)
        return timeout_s

    async def fault(timeout_s):
        raise Fault(ErrorCode.UPSTREAM_BLOCKED, "Refused.")

    async def garbage(timeout_s):
        return {}["results"]

    gathered = await request_all({"a": good, "b": fault, "c": garbage, "d": good}, timeout_s=10)
    assert gathered.replies == {"a": 10 * SHARE, "d": 10 * SHARE}
    assert list(gathered.replies) == ["a", "d"]
    assert gathered.failures["b"].code == "upstream_blocked"
    assert gathered.failures["c"].code == "internal"


async def test_cancelling_ends_every_request():
    """And so every worker behind them."""
    started, cancelled = asyncio.Event(), []

    async def wait(timeout_s):
        started.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.append(1)
            raise

    task = asyncio.create_task(request_all({"a": wait, "b": wait}, timeout_s=10))
    await started.wait()
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert len(cancelled) == 2
