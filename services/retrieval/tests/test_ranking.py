"""Preferences raise the score of what they found."""

from __future__ import annotations

from searchbus_retrieval.ranking import Preference, rank
from searchbus_vectors import Equals, Hit


def hit(key: str, score: float) -> Hit:
    return Hit(key, score, 0.5, {})


def test_preferred_hit_stands_before_a_better_match():
    """By the preference's lift; without preferences the order stays."""
    overall = [hit("a", 0.9), hit("b", 0.8)]
    assert rank(overall, []) == overall
    preference = Preference(Equals("kind", "x"), 0.4)
    ranked = rank(overall, [(preference, [hit("b", 1.0), hit("c", 0.2)])])
    assert [(h.id, round(h.score, 3)) for h in ranked] == [("b", 1.4), ("a", 0.9), ("c", 0.6)]


def test_hit_of_two_preferences_gets_both_lifts():
    """Ties are in order of id."""
    one, two = Preference(Equals("k", "x"), 0.4), Preference(Equals("k", "y"), 0.6)
    ranked = rank([hit("b", 0.5), hit("a", 0.5)], [(one, [hit("a", 0.5)]), (two, [hit("a", 0.5)])])
    assert [(h.id, round(h.score, 3)) for h in ranked] == [("a", 1.5), ("b", 0.5)]
    assert [h.id for h in rank([hit("b", 0.5), hit("a", 0.5)], [])] == ["a", "b"]
