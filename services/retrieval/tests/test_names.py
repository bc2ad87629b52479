"""What a question takes literally."""

from __future__ import annotations

import pytest

from searchbus_retrieval.names import (
    has_word,
    is_name_in,
    most_rare,
    name_words,
    opening_words,
    quoted,
)


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


@pytest.mark.parametrize(
    ("question", "words"),
    [
        ("Miran on rates", ["Miran"]), ("Who is Cook?", []), ("Of it? Brexit. And pears", ["Brexit"]),
        ("why", []), ("", []),
    ],
)  # fmt: skip
def test_first_words_may_be_names(question, words):
    """Stopwords are not."""
    assert sorted(opening_words(question)) == words


def test_name_is_written_with_its_capital():
    """By every passage that has it."""
    assert is_name_in(["said Miran", "others"], "Miran")
    assert not is_name_in(["Effects of it", "its effects"], "Effects")
    assert not is_name_in(["others"], "Miran")


@pytest.mark.parametrize(
    ("passages", "most"), [(0, 0), (1, 1), (20, 4), (15_000, 122), (100_000, 316)]
)
def test_rarity_grows_with_the_square_root_of_the_collection(passages, most):
    """So that it holds in a small and in a large one."""
    assert most_rare(passages) == most
