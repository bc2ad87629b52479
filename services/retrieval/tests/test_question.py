"""A question to one collection, read once."""

from __future__ import annotations

from searchbus_retrieval.profiles import Profile, load_profiles
from searchbus_retrieval.question import LITERAL_LIFT, QUANTITIES_LIFT, Question
from searchbus_vectors import CANDIDATES, Hit


def hit(text: str, date: str = "2022-03-16") -> Hit:
    return Hit(text, 0.5, 0.7, {"title": "Pears", "text": text, "m": {"date": date}})


def test_lifts_of_a_passage_add_up():
    """For the question's own words, and for its quantities."""
    question = Question("5.25 percent", Profile(), {})
    assert question.lift(hit("a rate of 5-1/4 percent")) == QUANTITIES_LIFT
    assert question.lift(hit("at 5.25 percent")) == LITERAL_LIFT + QUANTITIES_LIFT
    assert question.lift(hit("apples")) == 0.0
    assert question.spelled == "5.25 percent 5-1/4"


def test_numbers_and_dates_are_looked_for_further_down():
    """Without a profile, no question has an order."""
    fields = {"date": "datetime"}
    assert Question("pears", Profile(), fields).candidates == CANDIDATES
    assert Question("$600 billion", Profile(), fields).candidates > CANDIDATES
    latest = Question("latest on pears", load_profiles()["fomc"], fields)
    assert latest.candidates > CANDIDATES
    hits = [hit("pears"), hit("pears, too", "2023-02-01")]
    assert [h.id for h in latest.ordered(hits)] == ["pears, too", "pears"]
    assert Question("latest on pears", Profile(), fields).ordered(hits) == hits
