"""Results within a budget of tokens."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from searchbus_passages.budget import (
    BudgetTooSmallError,
    Layout,
    excerpt,
    fit_count,
    holds,
    share,
)
from searchbus_passages.sentences import sentences
from searchbus_passages.tokens import Ruler, count

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


SENTENCES = ("Rates rose in \u201cMarch\u201d.", "Pears were ripe!", "| 5\u20111/4 | x |\n", "\u9be8\u306e\u6b4c\u3002", "\U0001f350.",
             "e\u0301t\u00e9 ", "Inflation remained elevated over the year.")  # fmt: skip
ANSWER_TEXTS = st.lists(
    st.lists(st.sampled_from(SENTENCES), min_size=1, max_size=30).map(" ".join),
    min_size=1,
    max_size=8,
)


def rendered(texts):
    def render(spans) -> bytes:
        parts = [text[s.start : s.end] for text, s in zip(texts, spans, strict=False)]
        return json.dumps({"parts": parts}, ensure_ascii=False).encode()

    return render


@settings(max_examples=40)
@given(ANSWER_TEXTS, st.integers(100, 1500), st.integers(0, 6))
def test_budget_holds_and_parts_are_of_their_texts(texts, most, best):
    """Whatever the scores say."""
    layout = Layout(texts, most, rendered(texts))
    spans = layout.fill([[float(n == best) for n, _ in enumerate(own)] for own in layout.sentences])
    assert 1 <= len(spans) == layout.kept <= len(texts)
    assert count(rendered(texts)(spans).decode()) <= most
    assert all(0 <= s.start <= s.end <= len(t) for t, s in zip(texts, spans, strict=False))


def test_short_texts_stay_whole_and_the_best_sentence_is_kept():
    """The long one keeps what answers, wherever it stands."""
    texts = [
        "Short.",
        "Filler is here. " * 100 + "The answer stands here. " + "More filler. " * 100,
    ]
    layout = Layout(texts, 120, rendered(texts))
    scores = [
        [1.0 if "answer" in sentence else 0.01 for sentence in own] for own in layout.sentences
    ]
    short, long = layout.fill(scores)
    assert texts[0][short.start : short.end] == "Short."
    assert "The answer stands here." in texts[1][long.start : long.end]


def test_last_texts_are_left_out_where_little_would_be_left_of_each():
    """At least forty tokens each, or the whole text."""
    texts = ["Rates rose again and again. " * 20] * 10
    assert Layout(texts, 150, rendered(texts)).kept == 3
    assert Layout(["Short."] * 10, 80, rendered(["Short."] * 10)).kept == 10


@pytest.mark.parametrize("texts", [["Rates rose again. " * 50], []])
def test_budget_that_is_too_small_is_refused(texts):
    """With what is needed."""
    with pytest.raises(BudgetTooSmallError):
        Layout(texts, 4, rendered(texts))


@given(st.lists(st.integers(0, 60), max_size=100), st.integers(0, 1500))
def test_as_many_results_are_kept_as_fit(sizes, most):
    """The longest beginning of the list, found by halves."""
    rendered: list[int] = []

    def render(kept: int) -> bytes:
        rendered.append(kept)
        return json.dumps(["word " * size for size in sizes[:kept]]).encode()

    found = fit_count(len(sizes), most, render)
    assert len(rendered) <= 8
    fitting = [kept for kept in range(len(sizes) + 1) if holds(render(kept), most)]
    assert found == max(fitting, default=0)
