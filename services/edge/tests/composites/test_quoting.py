"""The answer of verify_quote for a page."""

from __future__ import annotations

import pytest
from msgspec import to_builtins

from searchbus_edge.composites.quoting import found_in
from searchbus_edge.composites.sources import Fetched
from searchbus_passages import find_quote

TEXT = "Rates rose in March. They fell in June."


@pytest.mark.parametrize(
    ("quote", "match", "found_id", "text"),
    [
        ("Rates rose in March.", "exact", "web:x#0-20", "Rates rose in March."),
        ("rates  ROSE", "equivalent", "web:x#0-10", "Rates rose"),
        ("They rose in June", "nearest", "web:x#21-38", "They fell in June"),
        ("quokkas", "none", "web:x", ""),
    ],
)
def test_place_has_an_id_for_fetch(quote, match, found_id, text):
    """Without a place it is the page's own."""
    page = Fetched("web:x", "T", TEXT, "https://x", content_hash="h")
    found = found_in(page, find_quote(TEXT, quote))
    assert (found.match, found.id, found.text) == (match, found_id, text)
    if match == "none":
        assert "start" not in to_builtins(found)
    else:
        assert TEXT[found.start : found.end] == text
        assert to_builtins(found)["start"] == found.start  # also where it is 0
    assert found.content_hash == "h"


def test_empty_fields_are_left_out():
    """An exact quotation has no differences."""
    found = found_in(Fetched("web:x", "T", TEXT, "https://x"), find_quote(TEXT, "June"))
    assert "differences" not in to_builtins(found)
