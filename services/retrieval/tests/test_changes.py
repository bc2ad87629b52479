"""What changed between the documents of two dates."""

from __future__ import annotations

import pytest

from searchbus_retrieval.changes import LATER_LIFT, NEW_LIFT, Change
from searchbus_retrieval.intent import wanted_type
from searchbus_retrieval.profiles import Profile, load_profiles
from searchbus_vectors import Hit

FOMC = load_profiles()["fomc"]
FIELDS = {"date": "datetime", "type": "keyword"}
OLD = "The harvest of pears has been poor in most districts. "
NEW = "The price of plums has risen in the north and in the south. "


def hit(key: str, date: str, text: str, kind: str = "statement") -> Hit:
    return Hit(key, 0.5, 0.7, {"title": "", "text": text, "m": {"date": date, "type": kind}})


def test_new_sentences_of_the_later_document_are_raised():
    """By their share; what the earlier one of its type said is not new."""
    change = Change.of(FOMC, FIELDS, "March 2024 compared with January 2024")
    assert change is not None
    hits = [
        hit("before", "2024-01-31", OLD), hit("same", "2024-03-20", OLD.upper()),
        hit("new", "2024-03-20", NEW), hit("both", "2024-03-20", OLD + "Also, the price of plums has risen in most places."),
        hit("minutes", "2024-03-20", NEW, "minutes"), hit("other", "2023-03-22", NEW),
    ]  # fmt: skip
    lifts = change.lifts(hits)
    assert lifts["new"] == pytest.approx(LATER_LIFT + NEW_LIFT)
    assert lifts["same"] == lifts["minutes"] == LATER_LIFT  # no earlier minutes are there
    assert lifts["same"] < lifts["both"] < lifts["new"]
    assert set(lifts) == {"same", "new", "both", "minutes"}


@pytest.mark.parametrize(
    "question",
    [
        "Was the harvest of March 2024 larger than in January 2024?",
        "Was that of March 2024 as big as in January 2024?",
        "What did the harvest of January 2024 turn into in March 2024?",
    ],
)
def test_comparisons_are_said_in_many_ways(question):
    """The later date is the one that is meant."""
    change = Change.of(FOMC, FIELDS, question)
    assert change is not None
    assert change.later.start.isoformat() == "2024-03-01"


@pytest.mark.parametrize(
    "question",
    ["pears in March 2024", "what changed in March 2024", "pears in March 2024 and January 2024", "what changed"],
)  # fmt: skip
def test_other_questions_compare_nothing(question):
    """A change needs two dates, and two dates are no change."""
    assert Change.of(FOMC, FIELDS, question) is None
    assert Change.of(Profile(), FIELDS, "March 2024 compared with January 2024") is None


def test_change_is_asked_of_the_type_that_is_compared():
    """Unless the question asks for another one."""
    question = "pears in March 2024 compared with January 2024"
    assert wanted_type(FOMC, FIELDS, question).value == "statement"
    assert wanted_type(FOMC, FIELDS, f"views of {question}").value == "minutes"
    assert wanted_type(FOMC, FIELDS, "pears in March 2024") is None
