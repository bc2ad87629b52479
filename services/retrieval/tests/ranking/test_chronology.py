"""The first or the latest document that says something."""

from __future__ import annotations

import pytest

from searchbus_retrieval.question.profiles import Profile, load_profiles
from searchbus_retrieval.ranking.chronology import order_of
from searchbus_vectors import Hit

FIELDS = {"date": "datetime"}
FOMC = load_profiles()["fomc"]


def hit(key: str, date: str, text: str, score: float = 0.9, cosine: float = 0.7) -> Hit:
    return Hit(key, score, cosine, {"title": "", "text": text, "m": {"date": date}})


def ordered(question: str, *hits: Hit, rarity: dict[str, float] | None = None) -> list[str]:
    order = order_of(FOMC, FIELDS, question)
    assert order is not None
    weights = dict.fromkeys(order.words, 1.0) | (rarity or {})
    return [h.id for h in order.apply(hits, {}, weights, rarity or ())]


@pytest.mark.parametrize(
    ("question", "wanted"),
    [
        ("When was the coronavirus first mentioned?", "first"),
        ("the most recent minutes", "latest"), ("said most recently of pears?", "latest"),
        ("When was the last time that pears were dear?", "latest"),
        ("last meeting that Greenspan chaired", "latest"),
        ("final statement on pears", "latest"), ("the final rule", None),
        ("growth in the first quarter", None), ("the first of March 2022", None),
        ("what was said last year", None), ("the first and the last cut", None),
        ("why did rates rise?", None), ("the July cut, the first in more than ten years", None),
        ("their first cut of rates in nearly a decade", None), ("the first cut in 2007", "first"),
        ("the pace at Ben Bernanke's last meeting as chairman", None),
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
        hit("far", "2020-02-12", "among much else the coronavirus", 0.2),
        hit("odd", "1997-01-01", "coronavirus", 0.9, cosine=0.3),
    )
    assert ordered("When was the coronavirus first mentioned?", *hits)[:3] == [
        "first",
        "far",
        "late",
    ]
    assert ordered("latest on the coronavirus", *hits)[:3] == ["late", "far", "first"]


def test_words_here_and_there_are_no_mention_far_behind_the_best():
    """Where the words stand apart, the passage must match well otherwise, too."""
    hits = (
        hit("near", "2020-04-29", "the trade war goes on", 1.0),
        hit("apart", "1999-01-01", "trade in pears grew fast, and the seasons' war is over", 0.2),
        hit("brief", "2018-01-01", "of pears, and a trade war", 0.2),
    )
    assert ordered("first mention of the trade war", *hits)[:2] == ["brief", "near"]


def test_most_of_the_quantities_must_be_there():
    """However late the passage that has them."""
    order = order_of(FOMC, FIELDS, "range of 5.25 to 5.5 percent for the first time")
    assert order is not None
    hits = [hit("a", "2022-07-27", "a range"), hit("b", "2023-07-26", "a range")]
    assert [h.id for h in order.apply(hits, {"a": 0.5, "b": 1.0}, {})] == ["b", "a"]


def test_rare_words_weigh_more():
    """An early passage with the common words of the question does not take part."""
    hits = [
        hit("old", "1993-02-03", "trouble of borrowers was discussed"),
        hit("meant", "2007-03-21", "subprime borrowers"),
        hit("later", "2007-08-07", "subprime borrowers"),
    ]
    order = order_of(FOMC, FIELDS, "first trouble with subprime borrowers")
    assert order is not None
    assert set(order.words) == {"troubl", "subprim", "borrow"}
    rarity = {"troubl": 3.0, "subprim": 9.0, "borrow": 5.0}
    assert [h.id for h in order.apply(hits, {}, rarity)] == ["meant", "later", "old"]


def test_phrase_in_quotes_must_be_there():
    """Where any passage has it, however far its score is behind."""
    hits = [
        hit("near", "2014-10-29", "for some considerable and long time"),
        hit("meant", "2014-12-17", "for a considerable time", score=0.2),
    ]
    assert ordered('last with the phrase "considerable time"', *hits) == ["meant", "near"]
    assert ordered('last with the phrase "patient"', *hits)[0] == "near"


def test_order_is_that_within_the_period_and_the_type_that_are_named():
    """Where any passage is of it."""
    hits = [
        hit("before", "2014-12-17", "a cut"), hit("within", "2015-01-28", "a cut"),
        hit("last", "2015-12-16", "a cut"), hit("after", "2016-01-27", "a cut"),
    ]  # fmt: skip
    assert ordered("first cut of 2015", *hits)[:2] == ["within", "last"]
    assert ordered("first cut of 1999", *hits)[0] == "before"
    minutes = Hit(
        "minutes", 0.9, 0.7, hits[0].payload | {"m": {"date": "2013-01-01", "type": "minutes"}}
    )
    order = order_of(FOMC, FIELDS | {"type": "keyword"}, "first minutes with a cut")
    assert order is not None
    assert [h.id for h in order.apply([*hits, minutes], {}, {})][0] == "minutes"


def test_nothing_found_is_nothing():
    """There is no best match then."""
    assert ordered("the latest pears") == []


def test_rare_words_of_the_question_are_literal():
    """The first that has them all, however the others match; usual words may be missing."""
    hits = (
        hit("usual", "2010-01-01", "debts, first of all", 1.0),
        hit("first", "2013-09-18", "fiscal problems of Chile", 0.4),
        hit("late", "2015-07-29", "the debts of Chile", 1.0),
    )
    question = "When was the debt of Chile first discussed?"
    assert ordered(question, *hits, rarity={"chile": 12.0})[:2] == ["first", "late"]
    assert ordered(question, *hits)[0] == "late"


def test_words_are_weighed_as_the_question_has_them():
    """What their forms have in common is no word, and would weigh nothing."""
    order = order_of(FOMC, FIELDS, "first transitory rise")
    assert order is not None
    assert order.words["transitor"] == "transitory"


def test_name_is_what_the_question_is_about():
    """A passage with the name takes part without the other rare words, and none without it."""
    hits = [
        hit("meant", "2009-12-15", "the sovereign debt of Chile", 0.5),
        hit("later", "2011-11-01", "the problems of Chile", 1.0),
        hit("other", "1999-01-01", "their problems", 1.0),
    ]
    question = "When did Chile's problems first come up?"
    rarity = {"chile": 12.0, "problem": 9.0}
    assert ordered(question, *hits, rarity=rarity)[:2] == ["meant", "later"]


def test_rare_first_name_is_that_of_the_whole_name():
    """Alone it is somebody else's; an initial may stand between."""
    hits = [
        hit("meant", "2006-01-31", "The last day of Ludwig P. Doe."),
        hit("other", "2011-04-27", "Present: Ludwig Roe. He was there in place of Doe."),
    ]
    rarity = {"ludwig": 12.0, "doe": 3.0}
    assert ordered("the last meeting of Ludwig Doe", *hits, rarity=rarity)[0] == "meant"


@pytest.mark.parametrize(
    "question",
    ["When were Ludwig and Doe first mentioned?", "When was Governor Ludwig first mentioned, Doe?"],
)
def test_names_of_several_need_not_stand_together(question):
    """Nor a title beside its name."""
    hits = [
        hit("meant", "2006-01-31", "Doe, and in Chile the governor, who was Ludwig."),
        hit("later", "2011-04-27", "Governor Ludwig spoke, and Ludwig and Doe."),
    ]
    rarity = {"ludwig": 12.0, "doe": 3.0, "governor": 2.0}
    assert ordered(question, *hits, rarity=rarity)[0] == "meant"


def test_words_that_follow_each_other_say_more():
    """The same words far from each other are about something else."""
    hits = [
        hit("meant", "2024-06-12", "The Committee remains highly attentive to inflation risks."),
        hit("other", "2026-04-29", "High inflation. The Committee is attentive. There are risks."),
    ]
    question = "last to say that it is highly attentive to inflation risks"
    rarity = {"attent": 9.0}
    assert ordered(question, *hits, rarity=rarity)[0] == "meant"


def test_words_with_others_between_them_need_not_stand_together_beside_a_rare_one():
    """Those without are one term."""
    hits = [
        hit("together", "2013-07-31", "Transitory inflation. The climate that they all change."),
        hit("apart", "2021-11-03", "Inflation, from what is transitory. Of climate change."),
    ]
    rarity = {"transitor": 6.0, "inflat": 2.0, "climat": 6.0, "chang": 2.0}
    question = "last to use the word transitory about inflation"
    assert ordered(question, *hits, rarity=rarity)[0] == "apart"
    assert ordered("first to speak of climate change", *hits, rarity=rarity)[0] == "apart"


def test_short_word_is_not_the_beginning_of_another():
    """Its plural is the word; what a longer one has in common with its stem begins many."""
    hits = [
        hit("other", "1993-02-03", "European markets, eurodollars"),
        hit("meant", "1996-12-17", "the price in euros"),
    ]
    assert ordered("first mention of the euro", *hits, rarity={"euro": 7.0})[0] == "meant"
    houses = [hit("meant", "2016-06-15", "houses"), hit("other", "2020-06-15", "pears")]
    assert ordered("last to speak of housing", *houses, rarity={"hous": 7.0})[0] == "meant"


def test_who_asks_and_how_is_not_what_is_asked_about():
    question = (
        "At which meeting did policymakers possibly note something of pears for the first time?"
    )
    order = order_of(FOMC, FIELDS, question)
    assert order is not None
    assert [*order.words] == ["pear"]


def test_when_something_began_is_the_first():
    """Without that word."""
    order = order_of(FOMC, FIELDS, "When did statements begin to include the votes?")
    assert order is not None
    assert order.wanted == "first"


def test_whom_all_documents_are_about_is_not_what_the_question_is_about():
    """By the profile; other passages have the word in another meaning."""
    hits = [
        hit("meant", "2019-06-19", "the Chilean authority will be patient"),
        hit("other", "2026-04-29", "fed through to the authority of Chile"),
    ]
    rarity = {"fed": 12.0, "patient": 9.0}
    assert ordered("last in which the Fed was patient", *hits, rarity=rarity)[0] == "meant"


def test_one_quoted_word_is_not_all_that_is_asked_about():
    """The other words must be there, too; a phrase of several says enough."""
    hits = [
        hit("a", "1993-02-03", "A measured rise."),
        hit("b", "2004-05-04", "Policy accommodation can be removed at a measured pace."),
    ]
    question = 'when was the removal of accommodation at a "measured" pace first mentioned'
    assert ordered(question, *hits)[0] == "b"
    assert ordered('first mention of "a measured rise" in accommodation', *hits)[0] == "a"


def test_year_until_which_something_lasts_must_be_named():
    """Where any document names it."""
    hits = [
        hit("a", "2011-06-22", "Low rates for an extended period."),
        hit("b", "2011-08-09", "Low rates through mid-2013."),
    ]
    assert ordered("first promise of low rates through 2013", *hits)[0] == "b"
    assert ordered("first promise of low rates through 2019", *hits)[0] == "a"
