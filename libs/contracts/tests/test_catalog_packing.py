"""A part is compressed, and its hash says what is in it."""

from __future__ import annotations

import hashlib

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from searchbus_contracts import Fault
from searchbus_contracts.catalog import KINDS, pack, part_hash, unpack

LINES = st.lists(st.binary(max_size=40).map(lambda line: line.replace(b"\n", b"")), max_size=5)


def test_hash_is_that_of_unpacked_parts():
    """So that workers and readers of both forms name a part alike."""
    expected = hashlib.sha256(b'prompts{"a":1}{"b":2}').hexdigest()[:32]
    assert part_hash("prompts", [b'{"a":1}', b'{"b":2}']) == expected


@given(st.sampled_from(KINDS), LINES)
def test_unpacking_gives_what_was_packed(kind, lines):
    """Any bytes without a line break, in their order."""
    assert unpack(pack(kind, lines), part_hash(kind, lines), max_bytes=10_000) == (kind, lines)


@given(st.binary(max_size=100))
@example(pack("tools", [b"a"]))
@example(b"")
def test_anything_else_is_refused(data):
    """With one kind of failure."""
    with pytest.raises(Fault, match="of the catalogue"):
        unpack(data, "0" * 32, max_bytes=10_000)


@pytest.mark.parametrize("max_bytes", [-5, 0, 1, 500])
def test_no_more_than_the_limit_is_decompressed(max_bytes):
    """Zero and less are limits, too."""
    lines = [b"x" * 1000]
    with pytest.raises(Fault, match="too large"):
        unpack(pack("tools", lines), part_hash("tools", lines), max_bytes=max_bytes)
