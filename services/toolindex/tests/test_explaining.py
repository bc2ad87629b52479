"""What decided about an entry is what the ranking decided by."""

from __future__ import annotations

import pytest

from searchbus_contracts import Actor
from searchbus_contracts.toolindex import FindReply
from searchbus_toolindex.gate import LEAST
from searchbus_toolindex.scoring import MIN_SCORE

from .conftest import EVERY_ROLE, find, index_of, tool

TOOLS = (
    tool("send", "send mail to a person"),
    tool("chart", "draw a chart of prices"),
    tool("secret", "send secret mail", required_roles=("A",)),
)


def explained(query: str, actor: Actor = EVERY_ROLE) -> FindReply:
    return find(index_of(*TOOLS), query, actor=actor, explain=True)


@pytest.mark.parametrize("query", ["send mail", "send", "draw prices", "zebra crossing"])
def test_kept_entries_are_the_matches(query):
    """In their order, with their probabilities; the others say which limit they miss."""
    reply = explained(query)
    considered = reply.explanation.considered
    kept = [entry for entry in considered if entry.left_out is None]
    assert [entry.name for entry in kept] == [found.name for found in reply.found]
    for entry, found in zip(kept, reply.found, strict=True):
        assert entry.probability == pytest.approx(found.score, abs=2e-4)
    for entry in considered:
        assert (entry.left_out == "score") == (entry.score < MIN_SCORE)
        assert len(entry.matches) == len(reply.explanation.texts)
    if considered[0].left_out == "probability":
        assert considered[0].probability < LEAST


def test_literal_match_says_what_it_adds():
    """The name of a tool, as the whole query."""
    first = explained("chart").explanation.considered[0]
    assert (first.name, first.left_out) == ("chart", None)
    assert first.literal > 1


def test_hidden_entries_are_not_considered():
    """An explanation shows what the caller may see, and nothing of the rest."""
    reader = Actor(subject="r")
    explanation = explained("secret mail", reader).explanation
    assert {entry.name for entry in explanation.considered} == {"send", "chart"}


def test_explanation_is_made_on_request():
    """A query without a word has none."""
    assert find(index_of(*TOOLS), "send mail").explanation is None
    assert explained("!?").explanation is None
