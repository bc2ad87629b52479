"""Words, stems and stopwords."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from searchbus_toolindex.words import fold, is_unspaced, split_words, stem, terms, word_terms


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("getHTTPResponse_v2", ["get", "HTTP", "Response", "v", "2"]),
        ("stock-price.now", ["stock", "price", "now"]),
        ("Übersicht über Äpfel", ["Übersicht", "über", "Äpfel"]),
        ("U\u0308bersicht u\u0308ber cafe\u0301s", ["Übersicht", "über", "cafés"]),
        ("\u1112\u1161\u11ab\u1100\u1173\u11af", ["한글"]),
        ("", []),
    ],
)
def test_identifiers_are_split(text, words):
    """At case changes, digits and punctuation; other scripts stay whole, and accented letters."""
    assert split_words(text) == words


def test_terms_are_stems_without_stopwords():
    """In order, with repetitions."""
    assert terms("getWeatherForecast for 3 days, 3 days") == [
        "weather", "forecast", "3", "day", "3", "day"
    ]  # fmt: skip
    assert word_terms("The Forecasts")[0] == ("Forecasts", "forecast")


def test_unspaced_scripts_give_pairs_of_characters():
    """A single character stands alone."""
    assert terms("天気予報") == ["天気", "気予", "予報"]
    assert terms("天") == ["天"]
    assert is_unspaced("天気")
    assert not is_unspaced("weather")


def test_a_run_of_letters_that_is_too_long_for_a_word_is_not_stemmed():
    """Its stem is not kept either: a caller chooses how long it is."""
    assert stem("planning") == "plan"
    assert stem("x" * 100 + "ing") == "x" * 100 + "ing"


def test_accents_are_folded():
    """Letters without a plain form keep theirs."""
    assert fold("Météo ŁÓDŹ ılık") == "meteo łodz ilik"


@given(st.text(max_size=200))
def test_any_text_gives_terms(text):
    """Each is lower-case, and none is empty."""
    assert all(term and not term.isspace() for term in terms(text))
