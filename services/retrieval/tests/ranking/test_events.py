"""Documents of one event."""

from __future__ import annotations

import pytest

from searchbus_retrieval.question.profiles import load_profiles
from searchbus_retrieval.ranking.events import choose_within_events, raise_earliest
from searchbus_retrieval.ranking.preferences import WantedType, wanted_type
from searchbus_vectors import Hit

FOMC = load_profiles()["fomc"]
STATEMENT = WantedType("statement", named=False)


def hit(key: str, score: float, kind: str, date: str) -> Hit:
    return Hit(key, score, 0.7, {"m": {"date": date, "type": kind}})


def test_wanted_document_gains_by_what_others_of_its_date_match_better():
    """Half of it; a document of another date gains nothing."""
    ranked = [
        hit("minutes", 1.5, "minutes", "2008-01-30"),
        hit("same", 0.5, "statement", "2008-01-30"),
        hit("other", 0.5, "statement", "2007-12-11"),
        hit("undated", 0.4, "statement", ""),
    ]
    scores = {h.id: h.score for h in choose_within_events(ranked, FOMC, STATEMENT)}
    assert scores["same"] == pytest.approx(0.5 + (1.5 - (0.5 - STATEMENT.lift)) / 2)
    assert (scores["other"], scores["undated"], scores["minutes"]) == (0.5, 0.4, 1.5)


def test_only_its_best_passage_gains():
    """And none where it is the best already."""
    ranked = [hit("a", 0.9, "statement", "2008-01-30"), hit("b", 0.8, "statement", "2008-01-30")]
    assert choose_within_events(ranked, FOMC, STATEMENT) == ranked
    assert choose_within_events([], FOMC, STATEMENT) == []


def test_earliest_of_those_that_match_alike_comes_first():
    """With as many of the quantities, of the wanted type, and not far behind."""
    ranked = [
        hit("again", 1.0, "statement", "2010-12-14"),
        hit("first", 0.9, "statement", "2010-11-03"),
        hit("minutes", 0.9, "minutes", "2010-11-02"),
        hit("less", 0.9, "statement", "2010-09-21"),
        hit("far", 0.5, "statement", "2009-03-18"),
    ]
    shares = {h.id: 0.5 if h.id == "less" else 1.0 for h in ranked}
    order = [h.id for h in raise_earliest(ranked, FOMC, STATEMENT, shares)]
    assert order == ["first", "again", "minutes", "less", "far"]


def test_nothing_alike_leaves_the_order():
    """Nor is anything raised where nothing was found."""
    minutes = [hit("minutes", 0.9, "minutes", "2010-11-02")]
    assert raise_earliest(minutes, FOMC, STATEMENT, {"minutes": 1.0}) == minutes
    assert raise_earliest([], FOMC, STATEMENT, {}) == []


FIELDS = {"date": "datetime", "type": "keyword"}


def test_change_is_asked_of_the_type_that_is_compared():
    """Unless the question asks for another one."""
    question = "pears in March 2024 compared with January 2024"
    assert wanted_type(FOMC, FIELDS, question).value == "statement"
    assert wanted_type(FOMC, FIELDS, f"views of {question}").value == "minutes"
    assert wanted_type(FOMC, FIELDS, "pears in March 2024") is None


def test_what_a_document_no_longer_says_stands_in_another():
    """Only where the question is about such a document."""
    assert wanted_type(FOMC, FIELDS, "Which word was dropped from the statement?") == WantedType(
        "minutes", named=False
    )
    assert wanted_type(FOMC, FIELDS, "the statement of March 2024").value == "statement"
    assert wanted_type(FOMC, FIELDS, "Prices dropped") is None
