"""JSON that others wrote."""

from __future__ import annotations

import pytest

from searchbus_upstream import read_json


@pytest.mark.parametrize(
    "text", ['{"a": "é \\ud83d", "b": NaN}', '{"a": "é \\ud83d", "b": NaN}'.encode()]
)
def test_nan_and_half_a_character_cost_no_more(text):
    """The rest of the document stays."""
    assert read_json(text, dict) == {"a": "é ?", "b": None}


@pytest.mark.parametrize("text", ["", "[1]", "{", b"\xff", "[" * 100_000, '{"a": 1e999}'])
def test_what_is_of_another_kind_is_refused(text):
    """By one of two exceptions."""
    with pytest.raises((ValueError, RecursionError)):
        read_json(text, dict[str, int])
