"""Bodies in parts: every body arrives whole, every damage is detected."""

from __future__ import annotations

import asyncio
import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from searchbus_bus.client.parts import (
    MAX_BODY_BYTES,
    Assembly,
    ChunkMark,
    Transit,
    TransitBudget,
    part_size_bytes,
    split,
)
from searchbus_contracts import Fault


@given(st.binary(min_size=1, max_size=4000), st.integers(1, 700), st.randoms())
def test_parts_in_any_order_make_the_body(body, size_bytes, random):
    """Splitting and assembling is the identity."""
    parts = list(enumerate(split(body, size_bytes)))
    random.shuffle(parts)
    assembly = Assembly(len(parts), len(body), hashlib.sha256(body).hexdigest())
    outcomes = [assembly.add(index, bytes(part)) for index, part in parts]
    assert outcomes[-1] == body
    assert outcomes[:-1] == [None] * (len(parts) - 1)


@pytest.mark.parametrize("first", [b"ab", b"cX", b"X"])
def test_the_last_of_a_part_counts(first):
    """Whatever came as this part before."""
    assembly = Assembly(3, 6, hashlib.sha256(b"abcdef").hexdigest())
    assert assembly.add(0, first) is None
    assert assembly.add(1, b"cd") is None
    assert assembly.add(0, b"ab") is None
    assert assembly.add(2, b"ef") == b"abcdef"


def test_a_damaged_part_is_detected():
    """A body that does not fit its hash is refused."""
    assembly = Assembly(2, 4, hashlib.sha256(b"abcd").hexdigest())
    assembly.add(0, b"ab")
    with pytest.raises(Fault, match="do not fit"):
        assembly.add(1, b"cX")


def test_part_outside_of_the_body_is_refused():
    """An index beyond the count is refused."""
    with pytest.raises(Fault, match="outside"):
        Assembly(2, 4, "0" * 64).add(2, b"x")


def test_body_over_the_limit_is_refused_before_it_is_gathered():
    """The announced size is checked first."""
    with pytest.raises(Fault, match="64 MiB"):
        Assembly(2, MAX_BODY_BYTES + 1, "0" * 64)


def test_mark_survives_its_header():
    """A chunk mark reads back what it wrote, and nothing malformed."""
    mark = ChunkMark(3, 12, 999, "a" * 64)
    assert ChunkMark.parse(str(mark)) == mark
    with pytest.raises(Fault):
        ChunkMark.parse("1/2 3")


def test_part_leaves_room_for_headers():
    """A part and its headers fit into one message."""
    assert part_size_bytes(1024 * 1024) == 512 * 1024
    assert part_size_bytes(64 * 1024) == 56 * 1024


def test_parts_are_kept_up_to_the_size_that_was_announced():
    """A sender that announces little and sends much fills no memory."""
    assembly = Assembly(1000, 10, "0" * 64)
    assert assembly.add(0, b"12345") is None
    assert assembly.add(0, b"1234567890") is None  # the same part again
    with pytest.raises(Fault, match="larger than the message"):
        assembly.add(1, b"1")


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
