"""What a question means beside its words."""

from __future__ import annotations

import pytest

from searchbus_retrieval.intent import (
    ASKED_LIFT,
    DATE_LIFT,
    EVENT_LIFT,
    LIMIT_LIFT,
    NEAR_LIFT,
    TYPE_LIFT,
    preferences,
)
from searchbus_retrieval.profiles import Profile, load_profiles
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


def test_event_says_when_it_was():
    """Less surely than a date, which says more."""
    profile = Profile(date_field="date", events={"2001-09/2001-12": ("twin towers", "fire")})
    autumn = AnyOf((DateRange("m.date", gte="2001-09-01", lt="2002-01-01"),))
    (event,) = preferences(profile, FIELDS, "Fires: when the Twin Towers fell")
    assert (event.condition, event.lift) == (autumn, EVENT_LIFT)
    assert EVENT_LIFT < DATE_LIFT
    (dated,) = preferences(profile, FIELDS, "the twin towers in March 2003")
    assert dated.lift == DATE_LIFT
    assert preferences(profile, {}, "the twin towers") == []


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


def test_quantity_asks_for_the_type_that_decides_them():
    """Unless other words ask for another type."""
    assert found("threshold of 6-1/2 percent") == [(Equals("m.type", "statement"), ASKED_LIFT)]
    assert found("why participants argued for 2 percent") == [
        (Equals("m.type", "minutes"), ASKED_LIFT)
    ]


def test_dates_around_count_where_no_document_has_the_date():
    """45 days before, 15 after."""
    (exact,) = preferences(FOMC, FIELDS, "holdings shrink on 2022-06-01")
    assert exact.instead is not None
    assert exact.instead.lift == NEAR_LIFT
    assert exact.instead.condition == AnyOf(
        (DateRange("m.date", gte="2022-04-17", lt="2022-06-17"),)
    )
    assert exact.instead.instead is None


def test_date_that_is_an_end_prefers_one_side_of_it():
    """What is planned until then was said before."""
    assert found("holdings shrink through 2022") == [
        (DateRange("m.date", lt="2023-01-01"), LIMIT_LIFT)
    ]
    assert found("holdings after 2022") == [(DateRange("m.date", gte="2023-01-01"), LIMIT_LIFT)]


def test_fields_that_a_collection_lacks_say_nothing():
    """Nothing could match them."""
    assert found("the minutes of March 2022", {"type": "keyword"}) == [
        (Equals("m.type", "minutes"), TYPE_LIFT)
    ]
    assert found("the minutes of March 2022", {}) == []
