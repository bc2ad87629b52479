"""Names and phrases that a query repeats literally."""

from __future__ import annotations

import numpy as np
import pytest

from searchbus_toolindex.literal import LiteralMatches

from .conftest import entries, tool

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
