"""Reciprocal rank fusion."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from searchbus_bus.client.fanout import reciprocal_rank, reciprocal_rank_fusion


def ranked(rankings, k=60):
    scores = reciprocal_rank_fusion(rankings, k=k)
    return sorted(scores, key=lambda item: -scores[item])


def test_scores_are_those_of_the_formula():
    """1 / (k + rank), ranks from 1."""
    scores = reciprocal_rank_fusion([["a", "b"], ["b"]], k=60)
    assert scores == {"a": pytest.approx(1 / 61), "b": pytest.approx(1 / 62 + 1 / 61)}


def test_what_several_rankings_have_comes_first():
    """Even in second place of each."""
    assert ranked([["a", "x"], ["b", "x"], ["c", "x"]])[0] == "x"


def test_a_small_k_prefers_a_first_place():
    """And a large one prefers agreement."""
    rankings = [["a", "x"], ["b", "x"]]
    assert ranked(rankings, k=60)[0] == "x"
    assert reciprocal_rank(0, k=1) > 1.4 * reciprocal_rank(1, k=1)


def test_a_weight_scales_the_score():
    """For sources that count more."""
    assert reciprocal_rank(3, k=60, weight=2.0) == 2 * reciprocal_rank(3, k=60)


def test_items_are_in_the_order_of_first_occurrence():
    """So that a stable sort breaks ties the same way every time."""
    assert list(reciprocal_rank_fusion([["b", "a"], ["c", "b"]], k=60)) == ["b", "a", "c"]
    assert reciprocal_rank_fusion([], k=60) == {}


@given(st.lists(st.integers(), unique=True, max_size=30), st.integers(1, 100))
def test_one_ranking_keeps_its_order(ranking, k):
    """For every k."""
    assert ranked([ranking], k=k) == ranking
