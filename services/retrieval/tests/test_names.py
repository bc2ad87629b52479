"""What a question takes literally."""

from __future__ import annotations

import pytest

from searchbus_retrieval.names import has_word, name_words, quoted


@pytest.mark.parametrize(
    ("question", "names"),
    [
        ("effects of the SARS epidemic on Asian economies", ["SARS", "Asian"]),
        ("Who is Lisa D. Cook?", ["Lisa", "Cook"]),
        ("SARS and its effects. What followed?", ["SARS"]),
        ("why did rates rise", []),
        ("", []),
    ],
)
def test_names_have_capitals(question, names):
    """But for the first word of a sentence; an acronym is one everywhere."""
    assert name_words(question) == names


def test_phrases_in_quotes():
    """In every kind of quotes."""
    for question in ('the phrase "considerable time"', "the phrase \u201cconsiderable time\u201d"):
        (phrase,) = quoted(question)
        assert phrase.stands_in("for a considerable  time after")
        assert not phrase.stands_in("for some time")
    assert quoted("the phrase considerable time") == []


@pytest.mark.parametrize(
    ("text", "there"), [("(Brexit)", True), ("a Brexiteer", True), ("Brexit", True), ("noBrexit", False), ("", False)]
)  # fmt: skip
def test_words_are_found_at_their_beginning(text, there):
    """Not within a word."""
    assert has_word(text, "Brexit") is there
    assert has_word(f"noBrexit {text}", "Brexit") is there
