"""Cursors are valid in their own list only, in one spelling."""

from __future__ import annotations

import pytest

from searchbus_edge.catalog.cursors import BadCursor, Cursors

CURSORS = Cursors(b"k" * 32)


def test_cursor_gives_back_its_state():
    """On every edge with the same key."""
    cursor = CURSORS.issue({"o": 5, "g": "é"}, "tools", None)
    assert Cursors(b"k" * 32).read(cursor, "tools", None) == {"o": 5, "g": "é"}


@pytest.mark.parametrize("bound_to", [(), ("tools",), ("prompts", None), ("tools", "web")])
def test_cursor_of_another_list_is_refused(bound_to):
    """Another method, toolset, query or caller."""
    with pytest.raises(BadCursor):
        CURSORS.read(CURSORS.issue({"o": 5}, "tools", None), *bound_to)


def test_parts_of_the_list_do_not_run_together():
    """("ab", "c") is not ("a", "bc")."""
    with pytest.raises(BadCursor):
        CURSORS.read(CURSORS.issue({"o": 5}, "ab", "c"), "a", "bc")


def test_cursor_is_bound_to_a_caller_of_any_name():
    """A token may name a caller with half a surrogate pair."""
    cursor = CURSORS.issue({"o": 5}, "tools", "\ud800", ["READER"])
    assert CURSORS.read(cursor, "tools", "\ud800", ["READER"]) == {"o": 5}
    with pytest.raises(BadCursor):
        CURSORS.read(cursor, "tools", "\ud801", ["READER"])


def test_changed_cursors_are_refused():
    """Each character counts."""
    cursor = CURSORS.issue({"o": 5}, "tools")
    changed = [
        cursor[:n] + ("A" if cursor[n] != "A" else "B") + cursor[n + 1 :]
        for n in range(len(cursor))
    ]
    for bad in [*changed, cursor[:-1], cursor + "A", cursor + "=", " " + cursor, cursor.lower()]:
        with pytest.raises(BadCursor):
            CURSORS.read(bad, "tools")


@pytest.mark.parametrize("bad", ["", "x", "é", "A" * 3000, "....", "AAAAAAAAAAAAAAAAAAAAAA"])
def test_text_that_is_no_cursor_is_refused(bad):
    """Whatever its length and letters."""
    with pytest.raises(BadCursor):
        CURSORS.read(bad, "tools")


def test_cursor_of_another_deployment_is_refused():
    """By its key."""
    with pytest.raises(BadCursor):
        Cursors(b"x" * 32).read(CURSORS.issue({}, "tools"), "tools")
