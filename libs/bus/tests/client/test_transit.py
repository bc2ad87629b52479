"""The bytes of large replies that a process receives at the same time."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from searchbus_bus.client import transit
from searchbus_bus.client.transit import (
    EXPECTED_TIMES,
    LARGE_BYTES,
    Transit,
    TransitBudget,
    TransitFullError,
)

LARGE = LARGE_BYTES + 1
RESERVE = st.tuples(st.sampled_from("abc"), st.integers(1, 50))


def test_what_does_not_fit_is_refused_until_something_is_given_back():
    """For all callers together."""
    budget = TransitBudget(total_bytes=10, caller_bytes=10)
    first = budget.reserve("a", 6)
    assert first is not None
    assert budget.reserve("b", 5) is None
    assert budget.reserve("b", 4) is not None
    first.release()
    assert budget.reserve("b", 5) is not None


def test_a_reply_of_no_bytes_leaves_nothing_behind():
    """Otherwise each caller of such a worker would stay in the table."""
    budget = TransitBudget()
    before = dict(vars(budget)["_used_by"])
    budget.reserve("a", 0).release()
    assert vars(budget)["_used_by"] == before


def test_a_caller_has_a_limit_of_its_own():
    """Another caller has what is left."""
    budget = TransitBudget(total_bytes=10, caller_bytes=4)
    assert budget.reserve("a", 4) is not None
    assert budget.reserve("a", 1) is None
    assert budget.reserve("b", 4) is not None


def test_a_reply_above_the_limits_is_admitted_alone():
    """Otherwise nobody would ever get it."""
    budget = TransitBudget(total_bytes=10, caller_bytes=4)
    large = budget.reserve("a", 99)
    assert large is not None
    assert budget.reserve("b", 1) is None
    large.release()
    assert budget.used_bytes == 0


@given(st.lists(st.one_of(RESERVE, st.integers(0, 20)), max_size=60))
def test_in_any_order_the_limits_hold_and_everything_is_given_back(steps):
    """A number gives back the reservation of that place, also twice."""
    budget = TransitBudget(total_bytes=100, caller_bytes=60)
    held: list[tuple[str, int, object]] = []
    everything = []
    for step in steps:
        if isinstance(step, int):
            if step < len(held):
                held.pop(step)[2].release()
            continue
        caller, size_bytes = step
        reservation = budget.reserve(caller, size_bytes)
        if reservation is not None:
            held.append((caller, size_bytes, reservation))
            everything.append(reservation)
        assert budget.used_bytes == sum(size for _, size, _ in held) <= 100
        assert sum(size for name, size, _ in held if name == caller) <= 60
    for reservation in everything:
        reservation.release()
    assert budget.used_bytes == 0


async def test_a_block_keeps_reservations_until_its_end():
    """Those of tasks that it started as well."""
    budget = TransitBudget()

    async def receive() -> None:
        block = Transit.current()
        assert block is not None
        reservation = budget.reserve(block.caller, 5)
        assert reservation is not None
        block.keep(reservation)

    with Transit():
        Transit.name("a")
        await asyncio.gather(receive(), receive())
        assert budget.used_bytes == 10
    assert budget.used_bytes == 0
    assert Transit.current() is None
    Transit.name("outside of a block, nobody is named")


async def test_a_task_that_outlives_its_block_keeps_nothing():
    """Several requests may wait for one reply, of which the first has left."""
    budget = TransitBudget()
    over = asyncio.Event()

    async def receive() -> None:
        block = Transit.current()
        assert block is not None
        await over.wait()
        reservation = budget.reserve(block.caller, 5)
        assert reservation is not None
        block.keep(reservation)

    with Transit():
        receiving = asyncio.create_task(receive())
        await asyncio.sleep(0)
    over.set()
    await receiving
    assert budget.used_bytes == 0


def expecting(budget: TransitBudget, caller: str, size_bytes: int) -> bool:
    """Whether a request is sent whose replies have this size."""
    budget.note("large", size_bytes)
    try:
        return budget.expect(caller, "large") is not None
    except TransitFullError:
        return False


def test_requests_whose_replies_are_usually_large_are_refused_before_they_are_sent():
    """Beyond several times a caller's limit; other callers, and other kinds, are sent."""
    budget = TransitBudget(caller_bytes=LARGE)
    assert [expecting(budget, "a", LARGE) for _ in range(EXPECTED_TIMES + 1)] == [
        *[True] * EXPECTED_TIMES,
        False,
    ]
    assert budget.expect("a", "another") is None
    assert expecting(budget, "b", LARGE)
    # A reply that has come is not refused because of those that are expected.
    assert budget.reserve("a", LARGE) is not None


def test_what_was_expected_is_given_back():
    """Once, when the request ends."""
    budget = TransitBudget(caller_bytes=LARGE)
    budget.note("large", EXPECTED_TIMES * LARGE)
    first = budget.expect("a", "large")
    with pytest.raises(TransitFullError) as refused:
        budget.expect("a", "large")
    assert refused.value.failure.retry_after_ms == 1000
    first.release()
    first.release()
    assert budget.expect("a", "large") is not None


def test_a_request_is_sent_alone_whatever_its_reply_has():
    """Otherwise nobody would ever get it."""
    budget = TransitBudget(caller_bytes=LARGE)
    assert expecting(budget, "a", 99 * LARGE)


def test_one_large_reply_among_small_ones_holds_nothing_up():
    """The usual size follows the newest replies."""
    budget = TransitBudget(caller_bytes=LARGE)
    budget.note("large", 8 * LARGE)
    for _ in range(20):
        budget.note("large", 100)
    assert budget.expect("a", "large") is None


def test_sizes_are_kept_for_a_limited_number_of_kinds(monkeypatch):
    """The one that was noted longest ago is forgotten."""
    monkeypatch.setattr(transit, "_MOST_KINDS", 2)
    budget = TransitBudget()
    for kind in ("small", "a", "b", "a", "c"):
        budget.note(kind, 100 if kind == "small" else LARGE)
    assert [budget.expect("x", kind) is not None for kind in ("small", "a", "b", "c")] == [
        False, True, False, True,
    ]  # fmt: skip
