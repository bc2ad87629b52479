"""Parsing a query: sentences, typos, other languages."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from searchbus_toolindex.query import Glossary, is_searchable, load_glossary, parse_query

WORDS = ["weather", "forecast", "send", "mail", "convert"]
IN_USE = {"fail", "wetter"}
GLOSSARY = Glossary("weather\twetter*\nsend\tsenden")


def parse(query: str):
    from searchbus_toolindex.words import stem

    known = {stem(word) for word in WORDS}
    return parse_query(
        query, is_known=known.__contains__, is_word=IN_USE.__contains__,
        vocabulary=lambda: WORDS, glossary=GLOSSARY,
    )  # fmt: skip


def test_sentences_are_searched_separately():
    """At least twelve characters each, at most eight; one alone is the query itself."""
    parsed = parse("Send a mail to Anna. Ok. Then convert 5 kroner.\nwhat is the weather")
    assert parsed.sentences == (
        "Send a mail to Anna.", "Then convert 5 kroner.", "what is the weather"
    )  # fmt: skip
    assert parse("Send a mail to Anna.").sentences == ()
    assert len(parse("Send one more mail. " * 20).sentences) == 8
    assert parsed.texts == (parsed.whole, *parsed.sentences, *parsed.readings)


def test_typos_are_corrected_in_a_second_reading():
    """One error a word, two in a long one; short words and numbers are left alone."""
    assert parse("wether forcast").readings == ("weather forecast",)
    assert parse("mial").readings == ("mail",)
    assert parse("xyz 12345").readings == ()
    assert parse("weather forecast").readings == ()


def test_of_many_unknown_words_only_the_first_are_compared():
    """Each takes milliseconds where the vocabulary is large, and such a text is not misspelt."""
    noise = " ".join(f"qq{chr(97 + n)}zz" for n in range(11))
    assert parse(f"{noise} wether").readings == (f"{noise} weather",)
    assert parse(f"{noise} qqqzz wether").readings == ()


def test_word_in_use_is_not_corrected():
    """Nor translated where the query is English, although the glossary has it."""
    assert parse("fail").readings == ()
    assert parse("bail").readings == ("mail",)
    assert parse("what is this wetter").readings == ()


def test_foreign_words_are_read_in_english():
    """With the known words of the query, without the others."""
    assert parse("Wetter forecast senden bitte").readings == ("weather forecast send",)


def test_words_left_out_of_a_translation_count_as_words_without_a_match():
    """So that one word that means something does not stand for the whole query."""
    parsed = parse("Wetter forecast senden bitte")
    assert parsed.terms(parsed.readings[0])[-1] == "bitt"
    assert "bitt" not in parse("wether forcast").terms("weather forecast")


@pytest.mark.parametrize(
    ("query", "guessed"),
    [
        ("Wetter in Bonn", False), ("what is senden", True), ("forcast", False), ("bail", True),
    ],
)  # fmt: skip
def test_reading_that_may_be_wrong_is_no_evidence(query, guessed):
    """A translated word of an English query, a correction of a first letter."""
    parsed = parse(query)
    assert parsed.readings
    assert parsed.is_evidence(parsed.whole)
    assert parsed.is_evidence(parsed.readings[0]) is not guessed


@pytest.mark.parametrize(
    ("query", "searchable"),
    [
        ("mail", True), ("天", True), ("a b2b", False), ("NOT mail", True), ("{}", False),
        ("$and $or", False), ("x", False), ("42", False), ("what is it", True), ("_ . -", False),
    ],
)  # fmt: skip
def test_only_words_are_searched_for(query, searchable):
    """Punctuation, operators, single letters and digits are none."""
    assert is_searchable(query) is searchable


@given(st.text(max_size=300))
def test_any_query_is_parsed(query):
    """The whole comes first and is what was sent."""
    assert parse(query).texts[0] == query


def test_share_of_corrected_words_belongs_to_the_reading():
    """Of the words that are no stopwords; a translated word is none."""
    parsed = parse("send the forcast to me")
    assert parsed.corrections(parsed.readings[0]) == 0.5
    assert parsed.corrections(parsed.whole) == 0.0
    assert parse("Wetter senden").corrected == 0.0
    assert parse("send mail").corrected == 0.0


@pytest.mark.parametrize(
    ("query", "strange"),
    [
        ("send mail", 0.0), ("flib the mail", 0.5), ("flib the wizzle", 1.0), ("fail mail", 0.0),
        ("Priya mail", 0.0), ("b2b mail", 0.0), ("Wetter in flib", 0.0), ("天气 mail", 0.0),
    ],
)  # fmt: skip
def test_words_of_no_language_are_counted(query, strange):
    """No names, identifiers, words in use; none where the query is in another language."""
    parsed = parse(query)
    assert parsed.strangeness(parsed.whole) == pytest.approx(strange)


def test_corrected_words_are_strange_in_the_query_but_not_in_the_reading():
    """There they count as corrections."""
    parsed = parse("wether mail")
    assert (parsed.strangeness(parsed.whole), parsed.strangeness(parsed.readings[0])) == (0.5, 0.0)


TABLE = "# comment\nweather\twetter* 天気\nforecast\tprevisão 予報\nno tab\n"


def test_words_are_found_whole_and_by_their_start():
    """Accents and case do not count; an unknown word gives nothing."""
    glossary = Glossary(TABLE)
    assert glossary.translate("Wetterbericht") == ["weather"]
    assert glossary.translate("PREVISAO") == ["forecast"]
    assert glossary.translate("previsaos") == []
    assert glossary.translate("comment") == []


def test_unspaced_text_gives_every_known_word_in_it():
    """In order, unknown characters skipped."""
    assert Glossary(TABLE).translate("明日の天気予報") == ["weather", "forecast"]


def test_shipped_table_is_read():
    """The commonest words of several languages."""
    glossary = load_glossary()
    for word in ("Wettervorhersage", "météo", "погода"):
        assert any("weather" in english for english in glossary.translate(word)), word
