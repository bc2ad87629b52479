"""Preferences raise the score of what they found."""

from __future__ import annotations

from searchbus_retrieval.ranking import Preference, in_order, metadata, rank, worth_reading
from searchbus_vectors import Equals, Hit, Match


def no(_: Hit) -> float:
    return 0.0


def match(key: str, score: float, words: float = 0.0) -> Match:
    return Match(key, score, 0.5, words)


def ranked(overall, preferred=(), lift=no) -> list[tuple[str, float]]:
    found = {m.id for matches in (overall, *(p[1] for p in preferred)) for m in matches}
    hits = rank(overall, preferred, {key: {} for key in found}, lift)
    return [(hit.id, round(hit.score, 3)) for hit in hits]


def test_preferred_hit_stands_before_a_better_match():
    """By the preference's lift; without preferences the order stays."""
    overall = [match("a", 0.9), match("b", 0.8)]
    assert ranked(overall) == [("a", 0.9), ("b", 0.8)]
    preference = Preference(Equals("kind", "x"), 0.4)
    found = ranked(overall, [(preference, [match("b", 1.0), match("c", 0.2)])])
    assert found == [("b", 1.4), ("a", 0.9), ("c", 0.6)]


def test_hit_of_two_preferences_gets_both_lifts():
    """Ties are in order of id."""
    one, two = Preference(Equals("k", "x"), 0.4), Preference(Equals("k", "y"), 0.6)
    equal = [match("b", 0.5), match("a", 0.5)]
    found = ranked(equal, [(one, [match("a", 0.5)]), (two, [match("a", 0.5)])])
    assert found == [("a", 1.5), ("b", 0.5)]
    assert [key for key, _ in ranked(equal)] == ["a", "b"]


def test_hit_with_the_words_of_the_query_stands_first():
    """Before every other that no preference raises; the others keep their order."""
    overall = [match("a", 1.0), match("b", 0.9), match("c", 0.01)]
    found = ranked(overall, lift=lambda hit: float(hit.id == "c"))
    assert [key for key, _ in found] == ["c", "a", "b"]


def test_only_what_was_read_is_ranked():
    """A match whose payload is not there was not worth reading, or was deleted meanwhile."""
    hits = rank([match("a", 1.0), match("b", 0.9)], [], {"b": {"title": "B"}}, no)
    assert [(hit.id, hit.payload) for hit in hits] == [("b", {"title": "B"})]


def test_best_scores_and_best_words_are_worth_reading():
    """More of both, where passages may turn the order round; always as many as are wanted."""
    overall = [match(f"{n:03}", 1 - n / 400, words=n / 400) for n in range(300)]
    preferred = [match(f"p{n:03}", 1 - n / 400, words=n / 400) for n in range(300)]
    read = worth_reading(overall, [preferred], 5, far=False)
    assert {"000", "039", "280", "299", "p000", "p039"} <= set(read)
    assert {"040", "279", "p040", "p299"}.isdisjoint(read)
    assert len(read) == len(set(read)) == 100
    assert {"p079", "079"} <= set(worth_reading(overall, [preferred], 80, far=False))
    quoted = worth_reading(overall, [preferred], 5, far=False, quotation=True)
    assert set(read) < set(quoted)
    far = worth_reading(overall, [preferred, preferred], 5, far=True)
    assert {"059", "240", "p059", "p240"} <= set(far)
    assert len(far) == len(set(far)) == 240


def test_hits_have_metadata_and_an_order():
    """A field that is not there is empty."""
    hit = Hit("a", 0.5, 0.5, {"m": {"date": "2020-01-01"}})
    assert [metadata(hit, name) for name in ("date", "type", None)] == ["2020-01-01", "", ""]
    assert metadata(Hit("b", 0.5, 0.5, {}), "date") == ""
    assert [h.id for h in in_order([Hit("b", 1.0, 0, {}), hit, Hit("a0", 1.0, 0, {})])] == [
        "a0", "b", "a"
    ]  # fmt: skip
