"""Cosine and words on one scale."""

from __future__ import annotations

import numpy as np
import pytest

from searchbus_toolindex.gate import Circumstances
from searchbus_toolindex.lexicon import Matches
from searchbus_toolindex.scoring import (
    EXPECTED_WEIGHT,
    Best,
    Facet,
    balanced,
    combine,
    fused,
    supported,
    toward,
)
from searchbus_vectors import DIMENSIONS

from .conftest import NEARNESS, floats

UNIT = np.eye(1, DIMENSIONS, dtype=np.float32)[0]


def facet(cosine, scores, coverage=(0.0, 0.0, 0.0), terms=2) -> Facet:
    matches = Matches(floats(*scores), floats(*coverage))
    return Facet(UNIT, floats(*cosine), matches, Circumstances(NEARNESS, terms, 0.0, 0.0, 3))


def fused_alone(found: Facet, best: Best):
    return fused([found], [best])[0].tolist()


EVERY = np.ones(3, dtype=bool)


def test_best_in_meaning_and_words_scores_one():
    """A cosine .2 below the best counts nothing; without words .75 remains, .675 for ten words."""
    for terms, without in ((2, 0.75), (10, 0.675)):
        found = facet((0.8, 0.6, 0.8), (5.0, 0.0, 0.0), terms=terms)
        expected = pytest.approx([1.0, 0.0, without], abs=1e-6)
        assert fused_alone(found, found.best(EVERY)) == expected


def test_maxima_are_those_of_visible_slots():
    """A hidden slot with a better match changes no score."""
    visible = np.array([True, True, False])
    one = facet((0.7, 0.6, 0.9), (2.0, 1.0, 9.0)).best(visible)
    other = facet((0.7, 0.6, 0.1), (2.0, 1.0, 0.0)).best(visible)
    assert one == other == Best(pytest.approx(0.7), 2.0)


def test_facet_of_some_slots_scores_like_the_whole():
    """Where it has the same cosines and maxima."""
    whole = facet((0.8, 0.7, 0.75), (5.0, 2.0, 0.0), (1.0, 0.5, 0.0))
    slots = np.array([2, 0])
    some = whole.at(slots, whole.cosine[slots])
    best = whole.best(EVERY)
    assert fused_alone(some, best) == [fused_alone(whole, best)[slot] for slot in (2, 0)]


def test_text_with_a_low_best_cosine_counts_less():
    """A quarter of the distance to the best cosine of all texts, over the span."""
    near, vague = facet((0.8, 0.6, 0.6), (0, 0, 0)), facet((0.6, 0.5, 0.5), (0, 0, 0))
    found = fused([near, vague], [near.best(EVERY), vague.best(EVERY)])
    assert found[0][0] == pytest.approx(0.75)
    assert found[1][0] == pytest.approx(0.75 * (1 - 0.25 * (0.8 - 0.6) / 0.2))


def test_better_of_query_and_reading_counts_with_the_best_sentence():
    """.25 and .75; without sentences the query alone."""
    whole, reading, sentence = floats(0.5, 0.0), floats(0.0, 1.0), floats(1.0, 0.0)
    assert combine(whole=whole, sentences=[], readings=[reading]).tolist() == [0.5, 1.0]
    assert combine(whole=whole, sentences=[sentence], readings=[reading]).tolist() == pytest.approx(
        [0.875, 0.25]
    )


def test_best_of_a_toolset_supports_the_others_in_a_long_request():
    """The highest score of all stays what it is; a request for one thing is scored as it was."""
    scores, toolsets = floats(1.0, 0.6, 0.7), np.array([3, 3, 0], dtype=np.int32)
    found = supported(scores, toolsets, 10)
    assert found.tolist() == pytest.approx([1.0, (0.6 + 0.25) / 1.25, 0.7], abs=1e-6)
    assert supported(scores, toolsets, 5).tolist() == scores.tolist()


def test_short_request_is_moved_toward_the_kind_of_tool_that_it_wants():
    """By the weight, on unit length; a fifth of it for a request of five times as many terms."""
    other = np.eye(1, DIMENSIONS, 7, dtype=np.float32)[0]
    for terms, weight in ((1, EXPECTED_WEIGHT), (5, EXPECTED_WEIGHT), (25, EXPECTED_WEIGHT / 5)):
        moved = toward(UNIT, other, terms)
        assert np.linalg.norm(moved) == pytest.approx(1)
        assert moved[7] / moved[0] == pytest.approx(weight / (1 - weight))


def test_long_query_counts_more_by_the_first_of_two_models():
    """Both alike for a request for one thing; a vector of one model stays as it is."""
    pair = np.r_[UNIT, UNIT]
    for terms, first in ((3, 1.0), (10, 1.5)):
        found = balanced(pair, terms)
        assert (found[0], found[DIMENSIONS]) == pytest.approx((first, 2 - first))
    assert balanced(UNIT, 10) is UNIT
