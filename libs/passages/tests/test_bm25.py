"""Texts with rare wanted terms come first."""

from __future__ import annotations

from searchbus_passages.bm25 import bm25


def test_rare_term_counts_more_than_a_common_one():
    """And a text without any is 0; the best is 1."""
    texts = [["rates", "rose"], ["rates", "fell"], ["rates", "pears"], ["boats"]]
    scores = bm25({"rates", "pears"}, texts)
    assert scores[2] == 1.0
    assert scores[0] == scores[1] > 0.0
    assert scores[3] == 0.0


def test_repeated_term_counts_less_each_time():
    """And a long text less than a short one with the same terms."""
    once, twice, long = bm25({"a"}, [["a", "b", "b"], ["a", "a", "b"], ["a", *"bcdefghij"]])
    assert long < once < twice < 2 * once


def test_nothing_to_find_is_no_failure():
    """No texts, no terms."""
    assert bm25({"a"}, []) == []
    assert bm25(set(), [["a"], []]) == [0.0, 0.0]
