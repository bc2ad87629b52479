"""Shares of a budget, and the parts of texts that fit into them."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from searchbus_passages.budget import excerpt, share
from searchbus_passages.sentences import sentences
from searchbus_passages.tokens import Ruler

TEXT = "Rates rose. Prices fell in March. The Committee decided to raise the target range. Pears ripened."
TEXTS = st.text("aB c.!\n1\u0301鯨\U0001f44d", max_size=200)


def said(text: str, limit: int, relevance=None) -> str | None:
    span = excerpt(text, Ruler(text), limit, relevance)
    return None if span is None else text[span.start : span.end]


def test_short_texts_leave_their_share_to_the_others():
    """In the order of the texts."""
    assert share([10, 500, 500], 210) == [10, 100, 100]
    assert share([10, 20], 1000) == [10, 20]
    assert share([], 5) == []
    assert share([7, 7], 0) == [0, 0]


@given(st.lists(st.integers(0, 1000), max_size=20), st.integers(0, 5000))
def test_shares_hold_the_budget_and_use_it(wanted, most):
    """All of it, as long as a text wants more than one token for each text."""
    given_ = share(wanted, most)
    assert sum(given_) <= most
    assert all(g <= w for g, w in zip(given_, wanted, strict=True))
    assert sum(given_) >= min(sum(wanted), most - len(wanted))


def test_text_that_fits_stays_whole():
    """Without the white space around it."""
    assert said(f"  {TEXT}\n", 100) == TEXT


def test_first_sentences_come_without_a_question():
    """As many as fit."""
    assert said(TEXT, 10) == "Rates rose. Prices fell in March."


def test_sentences_that_answer_come_first():
    """The run of sentences with the highest score, wherever it stands."""

    def relevance(found):
        return [1.0 if "Committee" in sentence else 0.1 for sentence in found]

    assert said(TEXT, 11, relevance) == "The Committee decided to raise the target range."


def test_sentence_that_is_too_long_is_cut_between_words():
    """Its beginning is given."""
    assert said(TEXT, 2, lambda found: [len(s) for s in found]) == "The"
    assert said("鯨の歌は海を渡る", 8) == "鯨の歌は"


def test_nothing_fits_into_nothing():
    """And an empty text has no part."""
    assert said(TEXT, 0) is None
    assert said(" \n", 50) is None


@given(TEXTS, st.integers(0, 60), st.booleans())
def test_excerpt_holds_its_limit(text, limit, asked):
    """It is never more, and whole sentences where one fits."""
    relevance = (lambda found: [float(len(s) % 3) for s in found]) if asked else None
    ruler = Ruler(text)
    span = excerpt(text, ruler, limit, relevance)
    if span is not None:
        assert span.start < span.end
        assert ruler.between(span.start, span.end) <= limit
        ends = {s.end for s in sentences(text)}
        first = next(iter(sentences(text)))
        if not asked and ruler.between(first.start, first.end) <= limit:
            assert span.end in ends
