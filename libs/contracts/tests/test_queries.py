"""The check of search queries."""

from __future__ import annotations

import pytest

from searchbus_contracts import Fault
from searchbus_contracts.queries import Part, check_query, too_small


@pytest.mark.parametrize(
    ("text", "query"),
    [(" a  b\t\nc ", "a b c"), ("x" * 10, "x" * 10), ("\u200bx", "\u200bx")],
)
def test_white_space_is_normalised(text, query):
    """Every run of it becomes one space."""
    assert check_query(text, max_chars=10) == query


def test_lines_can_be_kept():
    """Those that have a character."""
    text = " a\t b \r\n \n\u2028 c "
    assert check_query(text, max_chars=14, keep_lines=True) == "a b\nc"
    assert check_query(text, max_chars=14) == "a b c"
    with pytest.raises(Fault, match="empty"):
        check_query(" \n ", max_chars=5, keep_lines=True)


def test_letters_are_composed():
    """As most texts have them."""
    assert check_query("cafe\u0301", max_chars=5) == "caf\u00e9"


def test_letters_that_become_longer_are_accepted_by_each_service_that_counts():
    """The edge counts, and then the service that it asks: composed, \u0958 has two characters."""
    passed = check_query("\u0958" * 10, max_chars=10)
    assert check_query(passed, max_chars=10) == passed


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "q is empty"),
        (" \n ", "q is empty"),
        ("\u200b\u2060 \u00ad\ufeff", "q is empty"),
        ("a" + " " * 9 + "b", "q has 11 characters. Shorten it to at most 10"),
        ("cafe\u0301" * 2 + "s", "q has 11 characters"),
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


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("doc:a:b#12-90", Part("doc:a:b", 12, 90)), (" doc:a:b#0- ", Part("doc:a:b", 0, None)),
        ("doc:a:b", Part("doc:a:b")), ("doc:a:b#-5", Part("doc:a:b#-5")), ("x#1-2#3-4", Part("x#1-2", 3, 4)),
        ("x#1-9999999999", Part("x#1-9999999999")), ("x#\u0661-\u0662", Part("x#\u0661-\u0662")),
    ],
)  # fmt: skip
def test_part_is_read_from_the_end_of_an_id(text, part):
    """Anything else is a part of the id, which no source knows then."""
    assert Part.of(text) == part


@pytest.mark.parametrize("text", ["x#5-5", "x#5-4"])
def test_empty_part_is_refused(text):
    """The message has its offsets, and the name of the argument."""
    with pytest.raises(Fault, match=r"invalid_argument: id: the part 5-. is empty"):
        Part.of(text)
    with pytest.raises(Fault, match=r"invalid_argument: document_id: the part 5-. is empty"):
        Part.of(text, "document_id")


def test_part_is_written_as_it_is_read():
    """With or without an end."""
    for part in (Part("a", 1, 2), Part("a", 7)):
        assert Part.of(str(part)) == part
