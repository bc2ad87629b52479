"""How many bytes of large replies count at the same time."""

from __future__ import annotations

import asyncio

from hypothesis import given
from hypothesis import strategies as st

from searchbus_bus.client.parts import Transit, TransitBudget

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
