"""Fan-out: every name ends in a reply or a failure, in the given order."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from searchbus_bus import Hedge
from searchbus_bus.client.fanout import gather, reciprocal_rank, reciprocal_rank_fusion
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


def ranked(rankings, k=60):
    scores = reciprocal_rank_fusion(rankings, k=k)
    return sorted(scores, key=lambda item: -scores[item])


def test_scores_are_those_of_the_formula():
    """1 / (k + rank), ranks from 1."""
    scores = reciprocal_rank_fusion([["a", "b"], ["b"]], k=60)
    assert scores == {"a": pytest.approx(1 / 61), "b": pytest.approx(1 / 62 + 1 / 61)}


def test_what_several_rankings_have_comes_first():
    """Even in second place of each."""
    assert ranked([["a", "x"], ["b", "x"], ["c", "x"]])[0] == "x"


def test_a_small_k_prefers_a_first_place():
    """And a large one prefers agreement."""
    rankings = [["a", "x"], ["b", "x"]]
    assert ranked(rankings, k=60)[0] == "x"
    assert reciprocal_rank(0, k=1) > 1.4 * reciprocal_rank(1, k=1)


def test_a_weight_scales_the_score():
    """For sources that count more."""
    assert reciprocal_rank(3, k=60, weight=2.0) == 2 * reciprocal_rank(3, k=60)


def test_items_are_in_the_order_of_first_occurrence():
    """So that a stable sort breaks ties the same way every time."""
    assert list(reciprocal_rank_fusion([["b", "a"], ["c", "b"]], k=60)) == ["b", "a", "c"]
    assert reciprocal_rank_fusion([], k=60) == {}


@given(st.lists(st.integers(), unique=True, max_size=30), st.integers(1, 100))
def test_one_ranking_keeps_its_order(ranking, k):
    """For every k."""
    assert ranked([ranking], k=k) == ranking


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
