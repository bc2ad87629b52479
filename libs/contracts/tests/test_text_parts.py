"""Ids with a part of the text."""

from __future__ import annotations

import pytest

from searchbus_contracts import Fault
from searchbus_contracts.queries import Part


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
    """The message has its offsets."""
    with pytest.raises(Fault, match="is empty"):
        Part.of(text)


def test_part_is_written_as_it_is_read():
    """With or without an end."""
    for part in (Part("a", 1, 2), Part("a", 7)):
        assert Part.of(str(part)) == part
