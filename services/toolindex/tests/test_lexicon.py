"""BM25 over the visible slots."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from searchbus_toolindex.lexicon import Lexicon

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
    assert "weather" not in lexicon
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
