"""The check of search queries."""

from __future__ import annotations

import pytest

from searchbus_contracts import Fault
from searchbus_contracts.queries import check_query, too_small


@pytest.mark.parametrize(
    ("text", "query"),
    [("  a  b\t\nc ", "a b c"), ("x" * 10, "x" * 10), (" " * 50 + "x" * 10, "x" * 10)],
)
def test_white_space_is_normalised_before_the_length_is_checked(text, query):
    """Every run of white space becomes one space."""
    assert check_query(text, max_chars=10) == query


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "q is empty"),
        (" \n ", "q is empty"),
        ("x" * 11, "q has 11 characters. Shorten it to at most 10"),
    ],
)
def test_an_invalid_query_names_the_field_and_the_limit(text, message):
    """The model can correct itself."""
    with pytest.raises(Fault, match=message) as caught:
        check_query(text, max_chars=10, field="q")
    assert caught.value.code == "invalid_query"


def test_budget_that_is_too_small_names_what_is_needed():
    """The model can give more at once."""
    fault = too_small(100, 230)
    assert (fault.code, "230" in fault.failure.message) == ("invalid_argument", True)
