"""Cosine and words on one scale."""

from __future__ import annotations

import numpy as np
import pytest

from searchbus_toolindex.lexicon import Matches
from searchbus_toolindex.scoring import Best, Facet, combine, fused, least_score


def floats(*values: float):
    return np.array(values, dtype=np.float32)


def facet(cosine, scores, coverage=(0.0, 0.0, 0.0)) -> Facet:
    return Facet(floats(*cosine), Matches(floats(*scores), floats(*coverage)))


EVERY = np.ones(3, dtype=bool)


def test_best_in_meaning_and_words_scores_one():
    """A cosine .2 below the best counts nothing; without words .6 remains."""
    found = facet((0.8, 0.6, 0.8), (5.0, 0.0, 0.0))
    assert fused(found, found.best(EVERY)).tolist() == pytest.approx([1.0, 0.0, 0.6], abs=1e-6)


def test_maxima_are_those_of_visible_slots():
    """A hidden slot with a better match changes no score."""
    visible = np.array([True, True, False])
    one = facet((0.7, 0.6, 0.9), (2.0, 1.0, 9.0)).best(visible)
    other = facet((0.7, 0.6, 0.1), (2.0, 1.0, 0.0)).best(visible)
    assert one == other == Best(pytest.approx(0.7), 2.0, pytest.approx((1.3 + 8 * 0.5) / 10))


def test_facet_of_some_slots_scores_like_the_whole():
    """Where it has the same cosines and maxima."""
    whole = facet((0.8, 0.7, 0.75), (5.0, 2.0, 0.0), (1.0, 0.5, 0.0))
    slots = np.array([2, 0])
    some = whole.at(slots, whole.cosine[slots])
    best = whole.best(EVERY)
    assert fused(some, best).tolist() == fused(whole, best)[slots].tolist()
    assert some.evidence(0.5).tolist() == whole.evidence(0.5)[slots].tolist()


def test_evidence_is_cosine_contrast_and_coverage():
    """.5 of the distance to the typical cosine, .3 of the coverage."""
    found = facet((0.6, 0.5, 0.4), (0, 0, 0), (1.0, 0.5, 0))
    assert found.evidence(0.5).tolist() == pytest.approx([0.95, 0.65, 0.35])


def test_tail_begins_between_typical_and_best():
    """Between .2 and .4."""
    assert least_score(floats(1.0, *[0.0] * 91)) == pytest.approx(0.01 + 0.3 * 0.99, abs=1e-3)
    assert least_score(floats(1.0, *[0.9] * 91)) == 0.4
    assert least_score(floats(1.0, *[-1.0] * 91)) == 0.2


def test_two_good_entries_are_both_kept():
    """The mean of so few says little about what is typical."""
    assert least_score(floats(1.0, 0.6)) < 0.6


def test_better_of_query_and_reading_counts_with_the_best_sentence():
    """.4 and .6; without sentences the query alone."""
    whole, reading, sentence = floats(0.5, 0.0), floats(0.0, 1.0), floats(1.0, 0.0)
    assert combine(whole=whole, sentences=[], readings=[reading]).tolist() == [0.5, 1.0]
    assert combine(whole=whole, sentences=[sentence], readings=[reading]).tolist() == pytest.approx(
        [0.8, 0.4]
    )
