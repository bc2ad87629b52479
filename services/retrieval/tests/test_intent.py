"""What a question means beside its words."""

from __future__ import annotations

import pytest

from searchbus_retrieval.intent import ASKED_LIFT, DATE_LIFT, TYPE_LIFT, preferences
from searchbus_retrieval.profiles import load_profiles
from searchbus_vectors import AnyOf, DateRange, Equals

FIELDS = {"date": "datetime", "type": "keyword"}
FOMC = load_profiles()["fomc"]


def found(question: str, fields=FIELDS):
    return [(p.condition, p.lift) for p in preferences(FOMC, fields, question)]


def test_dates_and_document_types_are_preferences():
    """They guide the ranking; two names of types say nothing."""
    march = AnyOf((DateRange("m.date", gte="2022-03-01", lt="2022-04-01"),))
    assert found("What did the minutes of March 2022 say?") == [
        (march, DATE_LIFT), (Equals("m.type", "minutes"), TYPE_LIFT),
    ]  # fmt: skip
    assert found("Compare the minutes with the statement.") == []


@pytest.mark.parametrize(
    ("question", "kind"),
    [
        ("What was decided about the target rate?", "statement"),
        ("Which announcement ended the purchases?", "statement"),
        ("What did participants argue about a cut?", "minutes"),
        ("Who argued against the decision?", "minutes"),
    ],
)
def test_words_ask_for_a_type(question, kind):
    """Less than its name; the type that stands first in the profile comes first."""
    assert found(question) == [(Equals("m.type", kind), ASKED_LIFT)]


def test_name_of_a_type_says_more_than_words_that_ask():
    """The words then say nothing."""
    assert found("the statement on which participants differed") == [
        (Equals("m.type", "statement"), TYPE_LIFT)
    ]


def test_fields_that_a_collection_lacks_say_nothing():
    """Nothing could match them."""
    assert found("the minutes of March 2022", {"type": "keyword"}) == [
        (Equals("m.type", "minutes"), TYPE_LIFT)
    ]
    assert found("the minutes of March 2022", {}) == []
