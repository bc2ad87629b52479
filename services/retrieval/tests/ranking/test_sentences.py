"""How much of a question stands in one sentence of a passage."""

from __future__ import annotations

import pytest

from searchbus_retrieval.ranking.sentences import (
    Sentences,
    asks_for_money,
    asks_for_number,
    beginnings,
)

RARITY = {"limit": 4.0, "counterparty": 6.0, "raised": 2.0}


@pytest.mark.parametrize(
    ("text", "share"),
    [
        ("The desk raised the limits of counterparties. It adjourned.", 1.0),
        ("The limit is old. A counterparty left. Rates were raised.", 0.5),
        ("It was raised to the\n\nlimit", 4 / 12),
        ("The U.S. limit, 2.5 percent, was raised", 0.5),
        ("Nothing of it.", 0.0), ("delimited", 0.0), ("", 0.0),
    ],
)  # fmt: skip
def test_share_is_that_of_the_best_sentence(text, share):
    """By rarity, in every form of a word; an abbreviation or a blank line may end a sentence."""
    assert Sentences(RARITY).share_in(text) == pytest.approx(share)


def test_question_whose_words_no_passage_has_says_nothing():
    """Nor does one without words."""
    assert Sentences({"zorgle": 0.0}).share_in("zorgle") == 0.0
    assert Sentences({}).share_in("The limit. (And) more.") == 0.0


def test_beginnings_are_those_of_every_form():
    """Without stopwords."""
    assert beginnings("The policies of a Policy") == {"polici": "policies", "polic": "policy"}


@pytest.mark.parametrize(
    ("text", "share"),
    [
        ("The limit was raised in May 2004. A counterparty has $5.", 0.5),
        ("The limit was raised to 3-1/2 percent.", 0.5),
        ("It rose by 25. The limit is old.", 0.0),
        ("The limit of no counterparty was raised in 1999.", 0.0),
        ("The limit was raised on March 11 at 2:30.", 0.0),
        ("The limit was raised at 10:30.", 0.0),
        ("The limit was raised on March 11 to 30.", 0.5),
    ],
)
def test_sentence_without_the_number_that_is_asked_for_says_nothing(text, share):
    """A year is no such number, nor a day or a time."""
    assert Sentences(RARITY, with_number=True).share_in(text) == pytest.approx(share)


@pytest.mark.parametrize(
    ("text", "share"),
    [
        ("The limit was raised by 3 percent.", 0.0), ("The limit was raised to $30.", 0.5),
        ("The limit was raised to 30 billion.", 0.5), ("The limit was raised to 4 \u20ac30", 0.5),
        ("The limit was raised to 30 dollars.", 0.5), ("The limit was raised to $30bn.", 0.5),
        ("The limit was raised to 30 mn.", 0.5), ("The limit was raised to USD 30.", 0.5),
        ("The limit was raised to 30 euros.", 0.5), ("The limit was raised to 30 euphonia.", 0.0),
    ],
)  # fmt: skip
def test_question_for_money_is_answered_by_an_amount(text, share):
    """In a currency or in millions."""
    found = Sentences(RARITY, with_number=True, with_money=True).share_in(text)
    assert found == pytest.approx(share)


def test_words_of_an_amount_are_found_words():
    """Though they belong to its number."""
    found = Sentences({"billion": 3.0, "limit": 1.0}, with_number=True)
    assert found.share_in("The limit is $60 billion.") == 1.0


def test_question_for_money_asks_in_dollars():
    """The dollar has a rate as well, and of people there are millions."""
    assert asks_for_money("How many billions of dollars?")
    assert asks_for_money("How large was it in dollar terms?")
    for question in ("How far did the dollar fall?", "How many million jobs?", "How much?"):
        assert not asks_for_money(question)


@pytest.mark.parametrize(
    ("question", "asks"),
    [
        ("How much was the limit?", True), ("To what was it raised", True), ("size of the limit", True),
        ("what unemployment rate did they expect", True), ("Who raised the limit?", False),
        ("what did they say of the rate", False), ("US jobless rate, October 2000", True),
        ("CPI inflation June 2022", True), ("why did the jobless rate rise in 2009?", False),
    ],
)  # fmt: skip
def test_questions_for_a_number_are_told_by_their_words(question, asks):
    """How much, to what, the size of something."""
    assert asks_for_number(question) == asks
