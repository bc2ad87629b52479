"""A question to one collection."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from searchbus_retrieval.question.profiles import Profile, load_profiles
from searchbus_retrieval.ranking.question import (
    COMPARED_LIFT,
    LITERAL_LIFT,
    NAMES_LIFT,
    QUANTITIES_LIFT,
    QUOTATION_LIFT,
    SENTENCE_LIFT,
    SPREAD,
    Question,
)
from searchbus_vectors import Hit

FOMC = load_profiles()["fomc"]
FIELDS = {"date": "datetime", "type": "keyword"}


def hit(
    text: str, date: str = "2022-03-16", *, key: str = "", document: str = "d", **m: str
) -> Hit:
    payload = {"title": "Pears", "text": text, "document_id": document, "m": {"date": date, **m}}
    return Hit(key or text, 0.5, 0.7, payload)


def test_passage_with_the_querys_own_words_is_lifted():
    """And one with its rare names, by their share of the rarity."""
    question = Question("trade of Chile and Peru", Profile(), {})
    assert question.words == ["Chile", "Peru"]
    assert question.lift(hit("trade of Chile and Peru")) == pytest.approx(LITERAL_LIFT)
    question.weigh({"Chile": 12.0, "Peru": 3.0}, {"Chile"})
    assert question.lift(hit("pears from Chile")) == pytest.approx(NAMES_LIFT)
    assert question.lift(hit("pears from Peru")) == 0.0


def test_sentence_with_the_querys_words_is_lifted():
    """More than a passage that has them here and there."""
    question = Question("limit per counterparty", Profile(), {})
    question.weigh({"limit": 5.0, "counterparty": 5.0, "per": 5.0}, ())
    together = question.lift(hit("the limits of a counterparty and per day"))
    apart = question.lift(hit("A limit. And per counterparty."))
    assert 0.0 < apart < together == pytest.approx(SENTENCE_LIFT)


def test_first_word_of_a_question_may_be_a_name():
    """Where the passages write it with a capital only."""
    for word, lift in (("Miran", NAMES_LIFT), ("Pears", 0.0)):
        question = Question(f"{word} on rates", Profile(), {})
        question.weigh({word: 8.0}, {word})
        question.read([f"said {word}", "pears", "the rates"])
        assert question.lift(hit(f"so {word} said")) == pytest.approx(lift)


@pytest.mark.parametrize(
    ("storm", "first"), [(8.0, "a storm"), (5.0, "output held back"), (0.0, "output held back")]
)
def test_word_that_outweighs_all_others_is_what_the_first_is_about(storm, first):
    """Where none is rare."""
    question = Question("first to say that a storm held back output", FOMC, {"date": "datetime"})
    question.weigh({"storm": storm, "held": 4.0, "back": 4.0, "output": 5.0}, ())
    texts = {"output held back": "1993-02-03", "a storm": "1999-11-16"}
    hits = [hit(text, day, document=day) for text, day in texts.items()]
    assert question.ordered(hits)[0].id == first


def test_words_that_no_passage_has_are_not_what_the_first_is_about():
    """Whatever else it says, a passage must then mean the same."""
    question = Question("first to speak of zorgles", FOMC, {"date": "datetime"})
    question.weigh({"zorgles": 0.0}, ())
    assert question.sought_words == ""


def test_quotation_comes_before_all_else():
    """Also a part of it where the passage was cut, and not a few words."""
    words = "the harvest of sweet pears was poor in most of the northern districts"
    question = Question(words, Profile(), {})
    assert question.lift(hit(f"It said that {words}.")) == QUOTATION_LIFT
    cut = question.lift(hit("It said that the harvest of sweet pears was poor in most of the"))
    assert LITERAL_LIFT < cut < QUOTATION_LIFT
    assert question.lift(hit("It said that the harvest")) == 0.0
    assert question.may_quote


def test_passage_that_says_nothing_does_not_stand_for_its_document():
    """A closing line has the document's date and type, too."""
    hits = [
        replace(hit("For inquiries call 202.", type="statement"), score=1.2),
        replace(hit("The pears were poor. " * 10, key="text", type="statement"), score=1.0),
    ]
    question = Question("pears in the statement of March 2022", FOMC, FIELDS)
    raised = [replace(h, score=h.score + question.lift(h)) for h in hits]
    assert max(raised, key=lambda h: h.score).id == "text"
    assert Question("plums", Profile(), FIELDS).lift(hits[0]) == 0.0


def test_one_text_is_one_hit():
    """A passage of a fact and the one around it are mostly the same."""
    places = {"around": (0, 900), "fact": (100, 800), "next": (900, 1800)}
    hits = [
        Hit(key, score, 0.7, hit(key).payload | {"start": start, "end": end})
        for (key, (start, end)), score in zip(places.items(), (0.9, 0.8, 0.7), strict=True)
    ]
    hits[1].payload["fact"] = "votes"
    question = Question("pears", Profile(), {})
    assert [h.id for h in question.ordered(hits)] == ["around", "next"]
    fact_first = [hits[1].scored(1.0), hits[0], hits[2]]
    assert [h.id for h in question.ordered(fact_first)] == ["fact", "next"]


def test_passage_and_document_with_the_quantities_are_raised():
    """In every spelling; the other passages of the document get the document's part."""
    question = Question("5.25 percent", Profile(), {})
    assert question.spelled == "5.25 percent 5-1/4"
    with_it = hit("a rate of 5-1/4 percent")
    hits = [hit("apples", document="a"), with_it, hit("none")]
    assert [question.lift(h) for h in hits] == [0.0, QUANTITIES_LIFT, 0.0]
    scores = {h.id: h.score for h in question.ordered(hits)}
    raised = 0.5 + QUANTITIES_LIFT
    assert scores == pytest.approx({with_it.id: raised, "none": raised * SPREAD, "apples": 0.5})


def test_quantity_of_the_other_direction_does_not_count():
    """By the words that the profile sets against each other."""
    question = Question("rate raised to 1 percent in 2004", FOMC, {})
    assert question.lift(hit("They lowered it to 1 percent.")) == 0.0
    assert question.lift(hit("They increased it to 1 percent.")) == QUANTITIES_LIFT


def test_first_of_repeated_announcements_comes_first():
    """Unless the question has a date."""
    hits = [
        hit("purchases of $600 billion", "2010-12-14", key="a", type="statement", document="a"),
        hit("purchases of $600 billion", "2010-11-03", key="b", type="statement", document="b"),
    ]
    question = Question("announcement of $600 billion", FOMC, FIELDS)
    assert [h.id for h in question.ordered(hits)] == ["b", "a"]
    question = Question("announcement of $600 billion in December 2010", FOMC, FIELDS)
    assert [h.id for h in question.ordered(hits)] == ["a", "b"]


def test_further_passages_of_a_document_stand_lower():
    """Behind those of others that match nearly as well; equal ones stay in their order."""
    scores = {"a1": 0.9, "a2": 0.88, "a3": 0.86, "b1": 0.85, "c1": 0.77, "c0": 0.77}
    hits = [replace(hit(f"{k} pears", key=k, document=k[0]), score=v) for k, v in scores.items()]
    found = Question("pears", Profile(), {}).ordered(hits)
    assert [h.id for h in found] == ["a1", "b1", "a2", "c1", "a3", "c0"]
    assert found[4].score == pytest.approx(0.86 * SPREAD**2)


def test_text_of_several_documents_stands_first_once():
    """The second time it says nothing new."""
    texts = {"a": "pears", "b": "pears", "c": "ripe pears"}
    scores = {"a": 0.9, "b": 0.9, "c": 0.8}
    hits = [replace(hit(texts[k], key=k, document=k), score=v) for k, v in scores.items()]
    assert [h.id for h in Question("pears", Profile(), {}).ordered(hits)] == ["a", "c", "b"]


def test_numbers_and_dates_are_looked_for_further_down():
    """Without a profile, no question has an order."""
    usual = Question("pears", Profile(), FIELDS)
    assert not usual.looks_far
    amount = Question("$600 billion", Profile(), FIELDS)
    assert amount.looks_far
    assert amount.candidates == usual.candidates
    latest = Question("latest on pears", FOMC, FIELDS)
    assert latest.looks_far
    assert latest.candidates > usual.candidates
    hits = [hit("pears"), hit("pears, too", "2023-02-01", document="e")]
    assert [h.id for h in latest.ordered(hits)] == ["pears, too", "pears"]
    assert Question("latest on pears", Profile(), FIELDS).ordered(hits) == hits


def test_synonyms_are_the_profiles_own():
    """Of the first that says it, they find candidates; which is the first, the words decide."""
    assert "voting against" in Question("Why did they dissent?", FOMC, FIELDS).synonyms.words
    assert "voting against" in Question("When did they first dissent?", FOMC, FIELDS).sought_words
    assert Question("Why did they dissent?", Profile(), FIELDS).synonyms.words == ""


def test_quoted_phrases_are_literal():
    """All of them; the rest of the question need not stand there."""
    question = Question('Who said "sweet pears" and "sour plums"?', Profile(), {})
    assert question.is_literal(hit("Sour plums are no sweet  pears."))
    assert not question.is_literal(hit("Sour plums and sweet apples."))


@pytest.mark.parametrize(
    ("asked", "literal"),
    [
        ('Who said "sweet pears" in June 2023?', 1.0),
        ('What replaced the "sweet pears" of June 2023 at the next meeting?', 0.0),
        ('In June 2023 it said "sweet pears". How did it put it at the next meeting?', 0.0),
        ('They used to say "sweet pears". What do they say in June 2023?', 0.0),
    ],
)
def test_old_words_are_not_those_of_the_later_document(asked, literal):
    """It is asked for by them, and lacks them."""
    assert Question(asked, FOMC, FIELDS).lifts(hit("sweet pears"))["literal"] == literal


@pytest.mark.parametrize(
    ("asked", "lift"),
    [
        ("How did the text change between January 2023 and March 2023?", COMPARED_LIFT),
        ("How did the text change from January to March 2023?", COMPARED_LIFT),
        ("Which words of January 2023 were dropped in March 2023?", COMPARED_LIFT),
        ("How did the text change between March 2023 and May 2023?", 0.0),
        ("What happened between January 2023 and March 2023?", 0.0),
    ],
)
def test_later_one_of_two_says_what_changed(asked, lift):
    """Both are meant."""
    found = Question(asked, FOMC, FIELDS)
    assert found.lifts(hit("pears", "2023-03-22"))["compared"] == lift
    assert Question(asked, Profile(), {}).lifts(hit("pears", "2023-03-22"))["compared"] == 0.0


def test_words_for_which_the_profile_knows_more_are_replaced():
    """That the documents lack them says nothing: other words, or the time of an event."""
    profile = Profile(synonyms={"asset purchases": ("QE",)}, events={"2010-08/2011-06": ("QE2",)})
    assert Question("the size of QE2", profile, FIELDS).replaced == {"qe2"}
    assert Question("the size of QE", profile, FIELDS).replaced == {"qe"}


def test_words_of_a_date_need_not_stand_in_the_sentence_that_answers():
    """Its document is of that date."""
    assert Question("limit raised in March 2008", FOMC, FIELDS).own_words == [
        "limit",
        "raised",
    ]
    undated = Question("limit raised in March 2008", Profile(), {}).own_words
    assert undated == ["limit", "raised", "march", "2008"]
    assert "march" in Question("the march of time", Profile(), FIELDS).own_words
