"""The bytes of large replies that a process receives at the same time."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from searchbus_bus.client import transit
from searchbus_bus.client.transit import (
    LARGE_BYTES,
    WAITING_TIMES,
    Reservation,
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


async def expecting(budget: TransitBudget, caller: str, kind: str = "large") -> Reservation | None:
    """What counts for a request that is sent without waiting; None where it is refused, or would
    wait."""
    try:
        return await budget.expect(caller, kind, wait_s=0.0)
    except TransitFullError:
        return None


def asking(
    budget: TransitBudget, caller: str, count: int, *, wait_s: float = 600.0
) -> list[asyncio.Task[Reservation | None]]:
    """That many requests whose replies are usually large, in their order."""
    return [
        asyncio.create_task(budget.expect(caller, "large", wait_s=wait_s)) for _ in range(count)
    ]


async def turns() -> None:
    """Run what is ready."""
    for _ in range(5):
        await asyncio.sleep(0)


@pytest.fixture
def budget(monkeypatch) -> TransitBudget:
    """For one usual reply a caller; what waits does not end by itself."""
    monkeypatch.setattr(transit, "WAIT_S", 600.0)
    budget = TransitBudget(caller_bytes=LARGE)
    budget.note("large", LARGE)
    return budget


async def test_requests_are_sent_while_their_usual_replies_fit(budget):
    """Those of other callers, and of other kinds, are sent beside."""
    assert await expecting(budget, "a") is not None
    assert await expecting(budget, "a") is None
    assert await budget.expect("a", "another", wait_s=0.0) is None
    assert await expecting(budget, "b") is not None
    # A reply that has come is not refused because of those that are expected.
    assert budget.reserve("a", LARGE) is not None


async def test_of_a_hundred_requests_one_is_sent_after_the_other_and_the_rest_is_refused(budget):
    """Those that wait are sent in their order; the others are refused before anything is sent."""
    tasks = asking(budget, "a", 100)
    await turns()
    refused = [task for task in tasks if task.done() and task.exception() is not None]
    assert refused == tasks[1 + WAITING_TIMES :]
    for place in range(1 + WAITING_TIMES):
        await turns()
        assert [task.done() for task in tasks[: 1 + WAITING_TIMES]] == [
            number <= place for number in range(1 + WAITING_TIMES)
        ]
        tasks[place].result().release()
    assert await expecting(budget, "a") is not None
    assert vars(budget)["_waiting_by"] == {}


async def test_a_reply_on_its_way_is_room_that_is_taken(budget):
    """A request waits for its end."""
    reply = budget.reserve("a", LARGE)
    (task,) = asking(budget, "a", 1)
    await turns()
    assert not task.done()
    reply.release()
    assert await task is not None


async def test_a_request_that_waited_too_long_is_refused(budget):
    """It says when to try again; the next one has its turn."""
    first = await expecting(budget, "a")
    with pytest.raises(TransitFullError) as refused:
        await budget.expect("a", "large", wait_s=0.01)
    assert refused.value.failure.retry_after_ms == 1000
    first.release()
    first.release()
    assert await expecting(budget, "a") is not None


async def test_a_caller_that_leaves_keeps_no_place(budget):
    """Neither while it waits, nor in the moment of its turn."""
    first = await expecting(budget, "a")
    leaving, chosen, staying = asking(budget, "a", 3)
    await turns()
    leaving.cancel()
    await turns()
    first.release()
    chosen.cancel()
    await asyncio.wait([leaving, chosen])
    assert (leaving.cancelled(), chosen.cancelled()) == (True, True)
    (await staying).release()
    assert vars(budget)["_waiting_by"] == {}
    assert await expecting(budget, "a") is not None


async def test_a_request_is_sent_alone_whatever_its_reply_has():
    """Otherwise nobody would ever get it."""
    budget = TransitBudget(caller_bytes=LARGE)
    budget.note("large", 99 * LARGE)
    assert await expecting(budget, "a") is not None


async def test_one_large_reply_among_small_ones_holds_nothing_up():
    """The usual size follows the newest replies."""
    budget = TransitBudget(caller_bytes=LARGE)
    budget.note("large", 8 * LARGE)
    for _ in range(20):
        budget.note("large", 100)
    assert await expecting(budget, "a") is None


async def test_sizes_are_kept_for_a_limited_number_of_kinds(monkeypatch):
    """The one that was noted longest ago is forgotten."""
    monkeypatch.setattr(transit, "_MOST_KINDS", 2)
    budget = TransitBudget()
    for kind in ("small", "a", "b", "a", "c"):
        budget.note(kind, 100 if kind == "small" else LARGE)
    assert [
        await expecting(budget, kind, kind) is not None for kind in ("small", "a", "b", "c")
    ] == [
        False, True, False, True,
    ]  # fmt: skip
