"""The first or the latest document that says something."""

from __future__ import annotations

import pytest

from searchbus_retrieval.chronology import order_of
from searchbus_retrieval.profiles import Profile, load_profiles
from searchbus_retrieval.quantities import Quantities
from searchbus_vectors import Hit

FIELDS = {"date": "datetime"}
FOMC = load_profiles()["fomc"]


def hit(key: str, date: str, text: str, score: float = 0.9, cosine: float = 0.7) -> Hit:
    return Hit(key, score, cosine, {"title": "", "text": text, "m": {"date": date}})


def ordered(question: str, *hits: Hit) -> list[str]:
    order = order_of(FOMC, FIELDS, question)
    assert order is not None
    return [h.id for h in order.apply(hits, Quantities(question))]


@pytest.mark.parametrize(
    ("question", "wanted"),
    [
        ("When was the coronavirus first mentioned?", "first"),
        ("the most recent minutes", "latest"),
        ("last meeting that Greenspan chaired", "latest"),
        ("growth in the first quarter", None), ("the first of March 2022", None),
        ("what was said last year", None), ("the first and the last cut", None),
        ("why did rates rise?", None),
    ],
)  # fmt: skip
def test_which_questions_ask_for_an_order(question, wanted):
    """A first quarter is no order."""
    order = order_of(FOMC, FIELDS, question)
    assert (order.wanted if order else None) == wanted


def test_collection_without_dates_has_no_order():
    """By its profile, or by its fields."""
    assert order_of(Profile(), FIELDS, "the latest pears") is None
    assert order_of(FOMC, {}, "the latest pears") is None


def test_first_that_has_the_words_comes_first():
    """Before a better match of later; an earlier one without the words stays behind."""
    hits = (
        hit("late", "2020-04-29", "the coronavirus again", 1.0),
        hit("first", "2020-01-29", "of the coronavirus", 0.7),
        hit("other", "1999-01-01", "of pears", 0.8),
        hit("far", "1998-01-01", "coronavirus", 0.2),
        hit("odd", "1997-01-01", "coronavirus", 0.9, cosine=0.3),
    )
    assert ordered("When was the coronavirus first mentioned?", *hits)[:2] == ["first", "late"]
    assert ordered("latest on the coronavirus", *hits)[:2] == ["late", "first"]


def test_quantities_of_the_question_must_be_there():
    """In any spelling."""
    hits = (
        hit("a", "2022-07-27", "target range of 2-1/4 to 2-1/2 percent"),
        hit("b", "2023-07-26", "target range of 5\u20111/4 to 5\u20111/2 percent"),
    )
    assert ordered("target range of 5.25 to 5.5 percent for the first time", *hits)[0] == "b"


def test_nothing_found_is_nothing():
    """There is no best match then."""
    assert ordered("the latest pears") == []
