"""The words of a query in a passage."""

from __future__ import annotations

import pytest

from searchbus_retrieval.literal import Phrase


@pytest.mark.parametrize(
    ("query", "text"),
    [
        ("Lisa D. Cook", "PRESENT: Jerome H. Powell, LISA D.\n  COOK, Esther L. George"),
        ("Who is Lisa D. Cook?", "Present: Lisa D. Cook."),
        ("\u201cLisa D. Cook\u201d", "Lisa D. Cook"),
        ("what is the bank term funding program", "the new Bank Term\u00a0Funding Program, which"),
        ("the labor market's slack", "the labor market\u2019s slack"),
        ("March 21-22, 2023", "on March 21\u201322, 2023."),
        ("a long\u2014run goal", "the long-run goal"),
        ('the "neutral" rate', "its \u201cneutral\u201d rate"),
        ("Growth slowed. Inflation rose.", "Growth slowed. Inflation rose. Trade fell."),
        ("C++ (2023)", "It is written in C++ (2023)."),
        ("to be or not to be", "To be, or not: to be or not to be."),
    ],
)
def test_phrase_is_found(query, text):
    """Case, white space, dashes, quotes and the words of a question make no difference."""
    assert Phrase(query).stands_in("Another text.", text)


@pytest.mark.parametrize(
    ("query", "text"),
    [
        ("Cook", "a cookie and a precook"),
        ("Lisa D. Cook", "Cook, Lisa D."),
        ("rates rose in March", "rates rose in May"),
        ("", "anything"),
        ("?!", "anything ?!"),
        ("a.c", "abc"),
    ],
)
def test_other_text_is_not(query, text):
    """Whole words in the order of the query; a query without a word is in no text."""
    assert not Phrase(query).stands_in(text)
