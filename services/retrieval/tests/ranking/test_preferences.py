"""What a question prefers."""

from __future__ import annotations

import pytest

from searchbus_retrieval.documents.facts import fact_fields
from searchbus_retrieval.question.profiles import Profile, load_profiles
from searchbus_retrieval.ranking.asked_facts import (
    DECISION_LIFT,
    NAMED_LIFT,
    RATES_LIFT,
    VOTES_LIFT,
    AskedFacts,
    Premise,
)
from searchbus_retrieval.ranking.preferences import (
    ASKED_LIFT,
    DATE_LIFT,
    EVENT_LIFT,
    NEAR_LIFT,
    REPORTED_LIFT,
    TYPE_LIFT,
    Preference,
    in_order,
    metadata,
    preferences,
    rank,
    worth_reading,
)
from searchbus_vectors import AllOf, AnyOf, DateRange, Equals, Hit, IsIn, Match, NumberRange


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
    dated, _ = preferences(profile, FIELDS, "the twin towers in March 2003")
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
    exact, _ = preferences(FOMC, FIELDS, "holdings shrink on 2022-06-01")
    assert exact.instead is not None
    assert exact.instead.lift == NEAR_LIFT
    assert exact.instead.condition == AnyOf(
        (DateRange("m.date", gte="2022-04-17", lt="2022-06-17"),)
    )
    assert exact.instead.instead is None


def test_fields_that_a_collection_lacks_say_nothing():
    """Nothing could match them."""
    assert found("the minutes of March 2022", {"type": "keyword"}) == [
        (Equals("m.type", "minutes"), TYPE_LIFT)
    ]
    assert found("the minutes of March 2022", {}) == []


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


@pytest.mark.parametrize(
    ("question", "field", "values"),
    [
        ("Why did Janet Yellen vote against it in December 2015?", "f.dissenters", ("Yellen",)),
        ("What was Hoenig's objection?", "f.dissenters", ("Hoenig",)),
        ("Explain Mary Daly's lone dissent in March 2021", "f.dissenters", ("Daly",)),
        ("Jerome Powell voted no in 2013. On what grounds?", "f.dissenters", ("Powell",)),
        ("reasons Brainard gave for voting against it in 2016", "f.dissenters", ("Brainard",)),
        ("Which members opposed the rate cut of December 2015?", "f.decision", FOMC.opposites[1]),
        ("What was said when it raised rates in April 2020?", "f.decision", FOMC.opposites[0]),
    ],
)
def test_question_takes_votes_and_decisions_for_granted(question, field, values):
    """Passages that say so, in the time that it names."""
    premise = Premise.of(FOMC, FACTS, question, "m.date")
    assert IsIn(field, values) in premise.so.parts
    assert IsIn(field, values) not in premise.stated.parts
    assert any(isinstance(one, AnyOf) for one in premise.so.parts) == ("20" in question)


@pytest.mark.parametrize(
    "question",
    ["Who voted against Bernanke?", "Did Yellen dissent?", "Why did some prefer to raise rates in July 2016?",
     "Why were rates raised?", "What did Yellen say about inflation in 2015?",
     "Who dissented at Yellen's first meeting?", "At Yellen's first meeting who dissented?",
     "Why didn't Powell dissent in 2018?", "Is it true that Powell dissented in 2018?",
     "Why has Powell rarely dissented?", "Why did Powell never dissent?", "Say whether Powell dissented",
     "What was said when it had not raised rates in April 2020?", "Was Powell dissenting in 2018?",
     "Did Chair Powell or Governor Bowman dissent in 2018?", "Have Powell and Bowman dissented?",
     "Why did Bernanke face a dissent in 2011?", "What did Bernanke say when many dissented?"],
)  # fmt: skip
def test_other_questions_take_nothing_for_granted(question):
    """Those that ask whether it is so, or what somebody wanted."""
    assert Premise.of(FOMC, FACTS, question, "m.date") is None
    assert Premise.of(Profile(), {}, "Why did Yellen dissent?", "m.date") is None


def test_size_of_a_change_is_denied_where_the_change_is_stated():
    """Many statements have the new range alone."""
    says_size = NumberRange("f.change_bp", gte=-10_000)
    sized, plain = (
        Premise.of(FOMC, FACTS, f"why were rates raised{by} in July 2022, the hike", "m.date")
        for by in (" by 200 basis points", "")
    )
    assert says_size in sized.stated.parts
    assert says_size not in plain.stated.parts


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


@pytest.mark.parametrize(
    "question",
    ["Which three members voted against it?", "three of the governors dissented", "Three dissents"],
)
def test_number_of_dissents_is_preferred_to_others(question):
    """Where no vote has so many against, any dissent counts."""
    asked = AskedFacts.of(FOMC, FACTS, question)
    assert asked is not None
    three = AllOf((Equals("fact", "votes"), NumberRange("f.dissents", gte=3, lte=3)))
    assert asked.preference.condition == three
    assert asked.preference.instead is not None
    assert asked.preference.instead.lift == VOTES_LIFT


def test_number_in_other_letters_is_that_number():
    """A pattern without regard to case takes the letter without a dot for an i."""
    asked, plain = (
        AskedFacts.of(FOMC, FACTS, f"Which f{i}ve members voted against it?") for i in "\u0131i"
    )
    assert asked == plain


@pytest.mark.parametrize(
    ("question", "conditions"),
    [
        (
            "lower the target range to 1.5 to 1.75 percent",
            [NumberRange("f.target_high", gte=1.75, lte=1.75),
             NumberRange("f.target_low", gte=1.5, lte=1.5)],
        ),
        ("cut the funds rate to 1-1/2 percent", [NumberRange("f.target_high", gte=1.5, lte=1.5)]),
        (
            "cut the funds rate from 2 percent to 1.5 percent",
            [NumberRange("f.target_high", gte=1.5, lte=1.5)],
        ),
        (
            "rate cut of half a point",
            [AnyOf((NumberRange("f.change_bp", gte=50, lte=50),
                    NumberRange("f.change_bp", gte=-50, lte=-50)))],
        ),
    ],
)  # fmt: skip
def test_decision_of_the_rates_is_preferred(question, conditions):
    """A range is called by both ends or by the upper one; without such a one, any of the way."""
    asked = AskedFacts.of(FOMC, FACTS, question)
    assert asked is not None
    assert asked.preference.lift == RATES_LIFT
    assert list(asked.preference.condition.parts[1:]) == conditions
    assert asked.preference.instead is not None
    assert asked.preference.instead.condition == asked.preference.condition.parts[0]


@pytest.mark.parametrize("question", ["what of pears?", "a devoted member", ""])
def test_other_questions_ask_for_no_facts(question):
    """Nor do any where none were read, or declared."""
    assert AskedFacts.of(FOMC, FACTS, question) is None
    assert AskedFacts.of(FOMC, {}, "Why did Poe dissent?") is None
    assert AskedFacts.of(Profile(), FACTS, "Why did Poe dissent?") is None


@pytest.mark.parametrize(
    ("question", "lift"),
    [
        ("What was the unemployment rate in April 2020", DATE_LIFT),
        ("Why did unemployment rise in April 2020", REPORTED_LIFT),
    ],
)
def test_what_happened_is_sought_in_the_months_after_it(question, lift):
    """As well as in its own; a number of a month is published after its end."""
    (later,) = [p for p in preferences(FOMC, FIELDS, question) if p.name == "reported later"]
    (dates,) = later.condition.parts
    assert (dates.gte, dates.lt, later.lift) == ("2020-05-01", "2020-07-02", lift)


@pytest.mark.parametrize(
    "question",
    [
        "What was the unemployment rate in 2020",
        "Why did rates fall at the meeting in April 2020",
        "What did the April 2020 statement say of unemployment",
    ],
)
def test_what_was_said_at_a_meeting_is_sought_in_its_own_documents(question):
    """So is what happened in a year, which has many."""
    assert all(p.name != "reported later" for p in preferences(FOMC, FIELDS, question))
