"""Fan-out: every name ends in a reply or a failure, in the given order."""

from __future__ import annotations

import asyncio

import pytest

from searchbus_bus.client.fanout import gather
from searchbus_contracts import ErrorCode, Fault


def replying(value, turns=0):
    async def source():
        for _ in range(turns):
            await asyncio.sleep(0)
        return value

    return source


async def failing():
    raise Fault(ErrorCode.NOT_FOUND, "No.")


async def test_replies_are_in_the_given_order():
    """Whichever came first."""
    gathered = await gather({"slow": replying(1, turns=9), "quick": replying(2)})
    assert list(gathered.replies.items()) == [("slow", 1), ("quick", 2)]
    assert gathered.failures == {}


async def test_a_fault_ends_its_own_source_only():
    """It is reported under its name."""
    gathered = await gather({"bad": failing, "good": replying(1, turns=9)})
    assert gathered.replies == {"good": 1}
    assert gathered.failures["bad"].code == "not_found"


async def test_nothing_to_gather_is_an_empty_outcome():
    """No source, no reply."""
    assert (await gather({})).replies == {}


async def test_a_source_that_is_cancelled_is_a_failure():
    """Every name stands in one of the two."""

    async def cancelled():
        raise asyncio.CancelledError

    gathered = await gather({"a": cancelled, "b": replying(1)})
    assert gathered.replies == {"b": 1}
    assert gathered.failures["a"].code == "internal"


async def test_a_defect_is_not_hidden():
    """Only Faults are outcomes; the other sources are cancelled."""
    cancelled = []

    async def waits():
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.append(True)
            raise

    async def broken():
        await asyncio.sleep(0)
        raise KeyError("x")

    with pytest.raises(ExceptionGroup):
        await gather({"a": waits, "b": broken})
    assert cancelled == [True]
