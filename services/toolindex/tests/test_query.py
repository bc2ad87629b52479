"""Parsing a query: sentences, typos, other languages."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from searchbus_toolindex.glossary import Glossary
from searchbus_toolindex.query import parse_query

WORDS = ["weather", "forecast", "send", "mail", "convert"]
GLOSSARY = Glossary("weather\twetter*\nsend\tsenden")


def parse(query: str):
    from searchbus_toolindex.words import stem

    known = {stem(word) for word in WORDS}
    return parse_query(
        query, is_known=known.__contains__, vocabulary=lambda: WORDS, glossary=GLOSSARY
    )


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


def test_foreign_words_are_read_in_english():
    """With the known words of the query, without the others."""
    assert parse("Wetter forecast senden bitte").readings == ("weather forecast send",)


@given(st.text(max_size=300))
def test_any_query_is_parsed(query):
    """The whole comes first and is what was sent."""
    assert parse(query).texts[0] == query
