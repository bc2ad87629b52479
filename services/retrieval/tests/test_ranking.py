"""Preferences raise the score of what they found."""

from __future__ import annotations

from searchbus_retrieval.ranking import Preference, rank
from searchbus_vectors import Equals, Hit


def no(_: Hit) -> float:
    return 0.0


def hit(key: str, score: float) -> Hit:
    return Hit(key, score, 0.5, {})


def test_preferred_hit_stands_before_a_better_match():
    """By the preference's lift; without preferences the order stays."""
    overall = [hit("a", 0.9), hit("b", 0.8)]
    assert rank(overall, [], no) == overall
    preference = Preference(Equals("kind", "x"), 0.4)
    ranked = rank(overall, [(preference, [hit("b", 1.0), hit("c", 0.2)])], no)
    assert [(h.id, round(h.score, 3)) for h in ranked] == [("b", 1.4), ("a", 0.9), ("c", 0.6)]


def test_hit_of_two_preferences_gets_both_lifts():
    """Ties are in order of id."""
    one, two = Preference(Equals("k", "x"), 0.4), Preference(Equals("k", "y"), 0.6)
    ranked = rank(
        [hit("b", 0.5), hit("a", 0.5)], [(one, [hit("a", 0.5)]), (two, [hit("a", 0.5)])], no
    )
    assert [(h.id, round(h.score, 3)) for h in ranked] == [("a", 1.5), ("b", 0.5)]
    assert [h.id for h in rank([hit("b", 0.5), hit("a", 0.5)], [], no)] == ["a", "b"]


def test_hit_with_the_words_of_the_query_stands_first():
    """Before every other that no preference raises; the others keep their order."""
    overall = [hit("a", 1.0), hit("b", 0.9), hit("c", 0.01)]
    assert [h.id for h in rank(overall, [], lambda h: float(h.id == "c"))] == ["c", "a", "b"]
