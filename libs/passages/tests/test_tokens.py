"""Tokens are counted by a rule; a ruler never counts fewer than the finished JSON has."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from searchbus_passages.tokens import MAX_CHARS_PER_TOKEN, Ruler, count

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=300) | st.text(
    'aBc 1.|\n"\\e\u0301\u2011\ufeff鯨😀Ж', max_size=300
)


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("", 0), ("rate", 1), ("the rates", 2), ("inflation", 2), ("committee", 2), ("federal", 1), ("percents", 2), ("FOMC", 4), ("camelCase", 2), ("2024", 4),
        ("f3a9", 4), ("zażółć", 10), ("wszyscy", 6), ("xqzj", 4), ("Haus", 2), ("diritti", 2), ("Ժ", 2), ("a, b", 3), ("  a", 2), (" ", 1), ("5 %", 3), ("\n", 1), ("é", 2), ("Ж", 2), ("ЖЖ", 3),
        ("鯨", 2), ("ก", 3), ("😀", 4), ("e\u0301", 3), ("5\u20111", 5),
    ],
)  # fmt: skip
def test_rule(text, tokens):
    """Words by their length, everything else by its characters."""
    assert count(text) == tokens


LANGUAGES = [
    json.loads(line)
    for line in Path(__file__).with_name("languages.jsonl").read_text("utf-8").splitlines()
]


@pytest.mark.parametrize("sample", LANGUAGES, ids=lambda sample: sample["language"])
def test_no_language_has_more_tokens_than_counted(sample):
    """`tokens` is the most that any of six tokenizers made of the text: see README.md.

    The texts are the first article of the Universal Declaration of Human Rights.
    """
    assert count(sample["text"]) >= sample["tokens"]


def test_languages_are_many():
    """Of every script that the rule names."""
    assert len(LANGUAGES) >= 20
    assert {"Polish", "Finnish", "Greek", "Arabic", "Hindi", "Chinese", "Korean"} <= {
        sample["language"] for sample in LANGUAGES
    }


@given(TEXTS)
def test_no_text_has_more_tokens_than_bytes(text):
    """So that a short text need not be counted."""
    assert count(text) <= len(text.encode())


@given(TEXTS.filter(lambda text: not any(char < " " and char not in "\n\r\t\b\f" for char in text)))
def test_ruler_counts_at_least_what_the_json_has(text):
    """Escapes included; control characters that JSON spells out are left to the caller's check."""
    quoted = json.dumps(text, ensure_ascii=False)
    assert Ruler(text).between(0, len(text)) >= count(quoted) - 2


@given(TEXTS, st.integers(0, 300), st.integers(0, 50))
def test_part_that_is_reached_has_at_most_its_limit(text, start, limit):
    """It is the longest one of whole words."""
    ruler = Ruler(text)
    start = min(start, len(text))
    end = ruler.reach(start, limit)
    if end > start:
        assert ruler.between(start, end) <= limit
    if end < len(text):
        assert ruler.between(start, len(text)) > limit


def test_longest_text_of_a_budget_is_bounded():
    """Nothing has more characters for each token than small words."""
    text = " rates of" * 1000 + " return" * 1000
    assert len(text) <= MAX_CHARS_PER_TOKEN * count(text)
