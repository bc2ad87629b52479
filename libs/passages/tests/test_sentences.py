"""Sentences: no visible character is lost, none is in two, no letter loses its marks."""

from __future__ import annotations

import unicodedata
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from searchbus_passages.sentences import MAX_CHARS, Span, sentences, whole_letter

TEXTS = st.text('aB c.!?\n\r|-"1\u0301\u3002鯨\U0001f44d\U0001f3fd\u200d', max_size=400)


def cut(text: str) -> list[str]:
    return [text[span.start : span.end] for span in sentences(text)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Rates rose. They fell.", ["Rates rose.", "They fell."]),
        ('He said "no." She left!', ['He said "no."', "She left!"]),
        ("Mr. Powell met Jerome H. Powell in the U.S. It rained.",
         ["Mr. Powell met Jerome H. Powell in the U.S. It rained."]),
        ("About 5.25 percent, e.g. in March.", ["About 5.25 percent, e.g. in March."]),
        ("Heading\r\n\r\nText of\r\na line.", ["Heading", "Text of\r\na line."]),
        ("| a | b |\n| 1 | 2 |", ["| a | b |", "| 1 | 2 |"]),
        ("Items:\n- one\n- two", ["Items:", "- one", "- two"]),
        ("\u9be8\u3002\u6b4c\u3002", ["\u9be8\u3002", "\u6b4c\u3002"]),
        ("  \n ", []),
    ],
)  # fmt: skip
def test_sentences(text, expected):
    """Of prose, lists, tables and Japanese; an abbreviation ends none."""
    assert cut(text) == expected


@given(TEXTS)
def test_every_visible_character_is_in_one_sentence(text):
    """In order, without white space at the ends."""
    spans = list(sentences(text))
    assert "".join("".join(cut(text)).split()) == "".join(text.split())
    assert all(a.end <= b.start for a, b in pairwise(spans))
    assert all(part == part.strip() and part for part in cut(text))


def test_long_text_without_an_end_is_cut_between_words():
    """At most MAX_CHARS each."""
    parts = cut("word " * 1000)
    assert all(len(part) <= MAX_CHARS and set(part.split()) == {"word"} for part in parts)


@pytest.mark.parametrize(
    "letter", ["e\u0301\u0302", "\U0001f44d\U0001f3fd", "\U0001f469\u200d\U0001f4bb"]
)
def test_letter_is_not_parted_from_its_marks(letter):
    """Combining marks, skin tones, joined emoji."""
    text = letter * 1000
    for span in sentences(text):
        assert not unicodedata.combining(text[span.start])
        assert (span.end - span.start) % len(letter) == 0
    assert whole_letter(text, 0, len(letter) + 1) == len(letter)


def test_part_of_a_text_has_offsets_of_the_whole():
    """From `start` to `end`."""
    assert list(sentences("One. Two. Three.", 5, 9)) == [Span(5, 9)]
