"""Patterns that match nothing are named, with what they were meant to be."""

from __future__ import annotations

import pytest

from searchbus_attach.declare.views import View
from searchbus_attach.definitions.unmatched import unmatched

TOOLS = ["greet", "extra"]
ON_MCP = ["time__now", "time__zones", "files__read"]


def test_each_pattern_is_looked_at_by_itself():
    """One that matches is not named; of `deny`, too, which hides nothing then."""
    found = unmatched(View(allow=("gree*", "nosuch*"), deny=("extr",)), TOOLS)
    assert found == (
        "'nosuch*' of 'allow' matches no tool. Known: greet, extra.",
        "'extr' of 'deny' matches no tool. Did you mean 'extra'?",
    )


def test_what_matches_is_no_problem():
    """Nor is a view without patterns, and a tool that two patterns match."""
    assert unmatched(View(), TOOLS) == ()
    assert unmatched(View(allow=("*",), deny=("e*", "extra", "[gx]reet")), TOOLS) == ()


def test_a_server_can_be_the_nearest_name():
    """A pattern often names one."""
    (found,) = unmatched(View(allow=("time__*", "tim__*")), ON_MCP, servers=["files", "time"])
    assert found == "'tim__*' of 'allow' matches no tool. Did you mean 'time__*'?"


@pytest.mark.parametrize(
    ("pattern", "named"),
    [("far__x", False), ("f*", False), ("*__x", False), ("[f]ar__x", False), ("tim__*", True)],
)
def test_what_may_match_a_tool_that_is_not_known_yet_is_left_out(pattern, named):
    """A server that starts is no reason to doubt its patterns."""
    found = unmatched(View(allow=(pattern,)), ["time__now"], servers=["time"], unknown=["far"])
    assert bool(found) is named
