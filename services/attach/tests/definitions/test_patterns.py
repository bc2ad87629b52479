"""Patterns that take long to compile are not passed on."""

from __future__ import annotations

import pytest

from searchbus_attach.definitions.patterns import MAX_PATTERNS, Patterns


@pytest.mark.parametrize(
    ("pattern", "kept"),
    [
        (r"^[a-zA-Z0-9_-]{1,128}$", True),
        (r"^(?!.*--)[a-z0-9-]{1,63}$", True),
        (r"^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$", True),
        (r"\p{L}{200}", False),
        (r"((a{100}){100}){100}", False),
        (r"\w\W" * 240, False),
        ("x" * 2_000, True),
        (7, True),
    ],
)
def test_a_costly_pattern_is_left_out(pattern, kept):
    """What is not a pattern, or too long, is for others to refuse."""
    assert Patterns().keep(pattern) is kept


def test_a_schema_has_a_limited_number():
    """Cheap ones add up."""
    patterns = Patterns()
    assert [patterns.keep("a") for _ in range(MAX_PATTERNS)] == [True] * MAX_PATTERNS
    assert not patterns.keep("a")
