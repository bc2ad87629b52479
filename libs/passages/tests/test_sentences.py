"""Sentences, and what stands above them."""

from __future__ import annotations

import unicodedata
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from searchbus_passages import contexts
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
        ("## 2.1. Fares\n\nIt costs 2. Pay.\n1. Come. Go.\n2. Sit.",
         ["## 2.1. Fares", "It costs 2.", "Pay.", "1. Come.", "Go.", "2. Sit."]),
        ("\u9be8\u3002\u6b4c\u3002", ["\u9be8\u3002", "\u6b4c\u3002"]),
        ("  \n ", []),
    ],
)  # fmt: skip
def test_sentences(text, expected):
    """Of prose, lists, tables and Japanese; no abbreviation, heading's or item's number ends one."""
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


def above(text: str) -> dict[str, list[str]]:
    spans = list(sentences(text))
    return {
        text[span.start : span.end]: [text[s.start : s.end] for s in found]
        for span, found in zip(spans, contexts(text, spans), strict=True)
    }


def test_row_has_its_header_and_its_heading():
    """Each row of the table; the next paragraph has only the heading."""
    found = above("## Plans\n\n| Plan | Price |\n|---|---|\n| Wren | 3 |\n| Crow | 9 |\n\nNo more.")
    assert found["| Crow | 9 |"] == ["## Plans", "| Plan | Price |"]
    assert found["| Plan | Price |"] == found["No more."] == ["## Plans"]


def test_item_has_the_lead_of_its_list():
    """Also the second sentence of an item; what follows the list has none."""
    found = above("Bring with you:\n\n- A lamp. It must be new.\n- Rope.\n\nThen go.")
    assert found["- Rope."] == found["It must be new."] == ["Bring with you:"]
    assert found["Then go."] == []


def test_new_heading_replaces_the_one_before():
    """And ends a list."""
    found = above("# One\n\nFirst.\n\n# Two\n\nSecond.")
    assert (found["First."], found["Second."]) == (["# One"], ["# Two"])


@given(st.text("a#|-1. \n", max_size=200))
def test_context_stands_before_its_sentence(text):
    """In any text, and never in the sentence itself."""
    spans = list(sentences(text))
    found = contexts(text, spans)
    assert len(found) == len(spans)
    for span, own in zip(spans, found, strict=True):
        assert all(s.end <= span.start for s in own)
        assert len(own) <= 2


def test_longest_texts_take_steps_in_proportion_to_their_length():
    """One endless line, and a table of ten thousand columns: every part is read a few times."""

    class Counting(str):
        read = 0

        def __getitem__(self, key):
            Counting.read += len(part := str.__getitem__(self, key))
            return part

    def read(text: str) -> int:
        Counting.read = 0
        counted = Counting(text)
        contexts(counted, list(sentences(text)))
        return Counting.read

    row = "| a " * 10_000 + "|\n"
    for text in ("word " * 20_000, row * 3, "- a\n" * 20_000):
        assert read(text) <= len(text)
