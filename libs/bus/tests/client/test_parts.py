"""Bodies in parts: every body arrives whole, every damage is detected."""

from __future__ import annotations

import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from searchbus_bus.client.parts import (
    MAX_BODY_BYTES,
    Assembly,
    ChunkMark,
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
