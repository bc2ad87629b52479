"""Which facts a question asks for."""

from __future__ import annotations

import pytest

from searchbus_retrieval.asked_facts import DECISION_LIFT, NAMED_LIFT, VOTES_LIFT, AskedFacts
from searchbus_retrieval.facts import fact_fields
from searchbus_retrieval.profiles import Profile, load_profiles
from searchbus_vectors import Equals, Hit

FOMC = load_profiles()["fomc"]
FACTS = fact_fields(FOMC)


def hit(fact: str, **fields) -> Hit:
    return Hit("a", 0.5, 0.7, {"fact": fact, "f": fields})


def test_dissent_of_somebody_is_preferred_to_those_of_others():
    """Who is nobody's name falls back to any dissent."""
    asked = AskedFacts.of(FOMC, FACTS, "Why did Poe dissent?")
    assert asked is not None
    assert asked.preference.lift == NAMED_LIFT
    assert asked.preference.instead is not None
    assert asked.preference.instead.lift == VOTES_LIFT
    assert asked.answers(hit("votes", dissenters=["Ann B. Poe", "Poe"]))
    assert not asked.answers(hit("votes", dissenters=["Day"]))
    assert not asked.answers(hit("decision", dissenters=["Poe"]))
    assert not asked.answers(Hit("a", 0.5, 0.7, {}))


def test_first_word_may_be_who_dissented():
    """A question may begin with the name."""
    asked = AskedFacts.of(FOMC, FACTS, "Poe voting against it")
    assert asked is not None
    assert asked.values == ("Poe",)


def test_decision_of_the_direction_is_preferred():
    """A cut is what was lowered."""
    asked = AskedFacts.of(FOMC, FACTS, "the latest rate cut")
    assert asked is not None
    assert asked.preference.lift == DECISION_LIFT
    assert asked.answers(hit("decision", decision="lower"))
    assert not asked.answers(hit("decision", decision="raise"))


def test_decision_without_a_direction_is_any():
    """What the target range was says the decision to keep it as well."""
    asked = AskedFacts.of(FOMC, FACTS, "the funds range after the meeting")
    assert asked is not None
    assert asked.preference.condition == Equals("fact", "decision")
    assert asked.states(hit("decision", decision="maintain"))
    assert not asked.states(hit("votes"))


@pytest.mark.parametrize("question", ["what of pears?", "a devoted member", ""])
def test_other_questions_ask_for_no_facts(question):
    """Nor do any where none were read, or declared."""
    assert AskedFacts.of(FOMC, FACTS, question) is None
    assert AskedFacts.of(FOMC, {}, "Why did Poe dissent?") is None
    assert AskedFacts.of(Profile(), FACTS, "Why did Poe dissent?") is None
