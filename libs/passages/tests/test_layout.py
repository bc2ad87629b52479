"""The texts of one answer share its budget."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from searchbus_passages.budget import BudgetTooSmall
from searchbus_passages.layout import Layout
from searchbus_passages.tokens import count

SENTENCES = ("Rates rose in \u201cMarch\u201d.", "Pears were ripe!", "| 5\u20111/4 | x |\n", "\u9be8\u306e\u6b4c\u3002", "\U0001f350.",
             "e\u0301t\u00e9 ", "Inflation remained elevated over the year.")  # fmt: skip
TEXTS = st.lists(
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
@given(TEXTS, st.integers(100, 1500), st.integers(0, 6))
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
    with pytest.raises(BudgetTooSmall):
        Layout(texts, 4, rendered(texts))
