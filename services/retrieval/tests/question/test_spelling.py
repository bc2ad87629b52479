"""Misspelt words of questions."""

from __future__ import annotations

import pytest

from searchbus_retrieval.question.spelling import doubtful_words, near_words, with_words

KNOWN = {"artificial", "artificially", "inflation", "receipt", "recent", "about", "outlook"}


@pytest.mark.parametrize(
    ("misspelt", "near"),
    [
        ("artifical", ["artificial"]),
        ("inflaton", ["inflation"]),
        ("infaltion", ["inflation"]),
        ("inflatiom", ["inflation"]),
        ("inflattion", ["inflation"]),
        ("reciept", ["receipt"]),
        ("nflation", []),
        ("inflamatory", []),
    ],
)
def test_one_error_is_corrected(misspelt, near):
    """A letter too few, too many, another one, or two that changed places; not the first one."""
    assert near_words(misspelt, KNOWN.__contains__) == near


def test_only_plain_words_are_doubtful():
    """No names, numbers, short words, words with marks, or what stands in quotes."""
    question = 'what of inflaton in Mirann, 1999x, a-typoo, "qoutedd" and teh receipt'
    assert doubtful_words(question, KNOWN.__contains__) == ["inflaton"]


def test_only_whole_words_are_replaced():
    """The rest of the question stays as it was written, quotations too."""
    quoted = 'the inflaton of "the inflaton"'
    assert with_words(quoted, {"inflaton": "inflation"}) == 'the inflation of "the inflaton"'
    assert with_words("Inflaton, inflaton; inflatons", {"inflaton": "inflation"}) == (
        "Inflaton, inflation; inflatons"
    )
