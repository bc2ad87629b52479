"""Filters are values; what they select is in test_store.py."""

from __future__ import annotations

from searchbus_vectors import AllOf, Equals, Not


def test_equal_filters_are_equal_and_hashable():
    """So that tests and caches can compare them."""
    one, other = (AllOf((Equals("kind", "a"), Not(Equals("live", True)))) for _ in range(2))
    assert one == other
    assert len({one, other}) == 1
