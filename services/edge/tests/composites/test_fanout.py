"""Several sources at once, each with its share of the time."""

from __future__ import annotations

import asyncio

import pytest

from searchbus_contracts import ErrorCode, Failure, Fault
from searchbus_edge.composites.fanout import SHARE, request_all, worst_failure


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


def test_worst_failure_is_the_one_worth_a_retry():
    """The message names every source; an internal error is the source's, not ours."""
    fault = worst_failure({
        "web": Failure(code="quota_exhausted", message="Empty.", retryable=False),
        "documents": Failure(code="unavailable", message="Gone.", retryable=True, retry_after_ms=9),
    })  # fmt: skip
    assert (fault.code, fault.failure.retryable, fault.failure.retry_after_ms) == (
        "unavailable", True, 9,
    )  # fmt: skip
    assert fault.failure.message == (
        "Nothing was found, because sources failed. web: Empty. documents: Gone."
    )
    left_out = {
        "web": Failure(code="forbidden", message="x"),
        "a": Failure(code="internal", message="y"),
    }
    assert worst_failure(left_out).code == "upstream_failed"
    internal = worst_failure({"web": Failure(code="internal", message="x")})
    assert internal.code == "upstream_failed"
