"""BM25 over the visible slots."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from searchbus_toolindex.lexicon import Lexicon, LiteralMatches, Vocabulary

from .conftest import entries, tool

TEXTS = ["mail mail list", "weather", "mail", "send chart"]


@pytest.fixture
def lexicon():
    lexicon = Lexicon()
    for slot, text in enumerate(TEXTS):
        lexicon.add(slot, Counter(text.split()))
    return lexicon


def test_rarer_terms_count_more(lexicon):
    """And coverage is the share of the query's terms that a slot has, weighted by rarity."""
    visible = np.ones(4, dtype=bool)
    matches = lexicon.match(["mail", "weather"], lexicon.lengths(visible))
    assert matches.scores[1] > matches.scores[2] > 0
    assert matches.scores[3] == 0
    assert matches.coverage[1] > matches.coverage[0] > 0
    assert matches.coverage[0] + matches.coverage[1] == pytest.approx(1.0)


def test_hidden_slots_do_not_count(lexicon):
    """A frequency and an average are those of an index without them."""
    visible = np.array([True, True, False, False])
    alone = Lexicon()
    for slot, text in enumerate(TEXTS[:2]):
        alone.add(slot, Counter(text.split()))
    both = (
        lexicon.match(["mail", "list"], lexicon.lengths(visible)).scores[:2],
        alone.match(["mail", "list"], alone.lengths(np.ones(2, dtype=bool))).scores,
    )
    np.testing.assert_array_equal(*both)
    assert lexicon.frequency("mail", visible) == 1


def test_removed_slot_is_gone_and_can_be_filled_again(lexicon):
    """Its terms too, where no other slot has them."""
    lexicon.remove(1, Counter(["weather"]))
    assert "weather" not in lexicon._postings
    lexicon.add(1, Counter(["mail"]))
    assert lexicon.frequency("mail", np.ones(4, dtype=bool)) == 3


def test_nothing_visible_or_asked_scores_nothing(lexicon):
    """No division by zero."""
    assert not lexicon.match(["mail"], lexicon.lengths(np.zeros(4, dtype=bool))).scores.any()
    assert not lexicon.match([], lexicon.lengths(np.ones(4, dtype=bool))).coverage.any()


def test_slots_beyond_the_first_64_have_lengths():
    """The arrays grow."""
    lexicon = Lexicon()
    for slot in range(200):
        lexicon.add(slot, Counter(["mail"] * (1 + slot % 3)))
    scores = lexicon.match(["mail"], lexicon.lengths(np.ones(200, dtype=bool))).scores
    assert scores[0] == scores[198] != scores[199]


def test_slots_that_contain_a_term(lexicon):
    """In the order asked for; an unknown term is in none."""
    slots = np.array([2, 1, 0])
    assert lexicon.contains("mail", slots).tolist() == [True, False, True]
    assert not lexicon.contains("fax", slots).any()


ENTRIES = entries(
    tool("get_forecast", "The weather of a city.", title="Weather forecast"),
    tool("search", "Find anything in the wiki."),
    tool("send_mail", "Send mail to several people."),
)
VISIBLE = np.ones(3, dtype=bool)
EVERY_WORD = np.ones(3, dtype=np.float32)


def bonuses(query: str, visible=VISIBLE, coverage=EVERY_WORD) -> dict[int, float]:
    literal = LiteralMatches()
    for slot, entry in enumerate(ENTRIES):
        literal.add(slot, entry)
    return literal.bonuses(query, ENTRIES, coverage, visible)


def test_names_count_more_than_phrases_and_phrases_more_than_mentions():
    """A name as it is written counts most."""
    exact, name = bonuses("get_forecast")[0], bonuses("Get Forecast")[0]
    phrase, mention = bonuses("weather of a city")[0], bonuses("call get_forecast for Bonn")[0]
    assert exact > name > phrase > mention > 1
    assert bonuses("'Weather forecast'")[0] == exact


@pytest.mark.parametrize("query", ["search for a recipe", "forecast", "mail people"])
def test_other_words_are_no_literal_match(query):
    """Not even the name of a tool that is one plain word."""
    assert bonuses(query) == {}


def test_hidden_entries_have_no_match():
    """Whatever the query repeats."""
    assert bonuses("get_forecast", visible=np.array([False, True, True])) == {}


def test_phrase_needs_every_word():
    """Entries that lack a word are not looked at."""
    assert bonuses("weather of a city", coverage=np.zeros(3, dtype=np.float32)) == {}


def test_removed_entry_is_not_found():
    """And another of the same name still is."""
    literal = LiteralMatches()
    literal.add(0, ENTRIES[0])
    literal.add(1, ENTRIES[0])
    literal.remove(0, ENTRIES[0])
    no_word = np.zeros(3, dtype=np.float32)
    assert set(literal.bonuses("get_forecast", ENTRIES, no_word, VISIBLE)) == {1}


def test_words_of_visible_slots_are_sorted():
    """A word of a hidden slot alone is left out; one that a visible slot shares is not."""
    words = Vocabulary()
    words.add(0, {"secret", "mail"})
    words.add(1, {"mail", "chart"})
    assert words.visible(np.array([False, True])) == ["chart", "mail"]
    assert words.visible(np.array([True, True])) == ["chart", "mail", "secret"]


def test_removed_words_are_gone():
    """Where no other slot has them."""
    words = Vocabulary()
    words.add(0, {"secret", "mail"})
    words.add(1, {"mail"})
    words.remove(0, {"secret", "mail"})
    assert words.visible(np.array([True, True])) == ["mail"]
