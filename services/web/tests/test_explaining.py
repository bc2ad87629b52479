"""What an explained search says of results and of what was left out."""

from __future__ import annotations

import msgspec
import pytest

from searchbus_web.explaining import MAX_LEFT_OUT, ProviderVote, explained, left_out
from searchbus_web.fusion import Fused, Vote
from searchbus_web.results import Result

PAGE = Fused(
    Result("A page", "http://a.org/"),
    0.3,
    (Vote("x", 1, 0.2), Vote("y", 2, 1 / 7, counted=False), Vote("z", 6, 0.1)),
    copies=("http://b.org/",),
)


def test_explanation_has_every_vote():
    """Those that do not count, too; the score is the sum of the others."""
    why = explained(PAGE)
    assert why.votes[1] == ProviderVote("y", 2, 0.1429, counted=False)
    counted = sum(vote.score for vote in why.votes if vote.counted)
    assert why.score == pytest.approx(counted)
    assert msgspec.to_builtins(why) == {
        "score": 0.3,
        "votes": [
            {"provider": "x", "rank": 1, "score": 0.2},
            {"provider": "y", "rank": 2, "score": 0.1429, "counted": False},
            {"provider": "z", "rank": 6, "score": 0.1},
        ],
        "copies": ["http://b.org/"],
    }


def test_what_was_left_out_is_limited_and_clean():
    """Pages of the fused list come first; what was refused was not cleaned before."""
    refused = [("x", Result("<b>\u202eno\n", "http://10.0.0.1/"), "not_public")] * 30
    entries = left_out(refused, [(PAGE, "limit")])
    assert len(entries) == MAX_LEFT_OUT
    assert [entry.reason for entry in entries[:2]] == ["limit", "not_public"]
    assert entries[0].explanation == explained(PAGE)
    assert (entries[1].provider, entries[1].explanation) == ("x", None)
    assert "\u202e" not in entries[1].title
    assert "\n" not in entries[1].title
