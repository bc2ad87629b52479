"""Cosine and words on one scale."""

from __future__ import annotations

import numpy as np
import pytest

from searchbus_toolindex.lexicon import Matches
from searchbus_toolindex.scoring import (
    EXPECTED_WEIGHT,
    FEATURES,
    LEAST,
    Best,
    Facet,
    Gate,
    TextFeatures,
    balanced,
    combine,
    features,
    fused,
    judge,
    load_gate,
    supported,
    toward,
)
from searchbus_vectors import DIMENSIONS
from searchbus_vectors.hash_embedder import HashEmbedder
from searchbus_vectors.models import MODEL_NAME

from .conftest import NEARNESS, floats

UNIT = np.eye(1, DIMENSIONS, dtype=np.float32)[0]


def facet(cosine, scores, coverage=(0.0, 0.0, 0.0), terms=2) -> Facet:
    matches = Matches(floats(*scores), floats(*coverage))
    return Facet(UNIT, floats(*cosine), matches, TextFeatures(NEARNESS, terms, 0.0, 0.0, 3))


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


def text_features(**changed) -> TextFeatures:
    given = {"nearness": NEARNESS, "terms": 3, "corrected": 0.0, "strange": 0.25, "entries": 92}
    return TextFeatures(**{**given, **changed})


def test_features_are_margins_coverage_agreement_and_circumstances():
    """Logarithms of the numbers of terms and of entries, of which there are never few."""
    found = features(floats(0.7, 0.4), floats(0.5, 0.0), floats(0.8, 0.3), text_features())
    assert found.shape == (2, len(FEATURES))
    expected = [0.1, 0.2, 0.5, 0.8, np.log(3), 0.0, np.log(100), 0.25, 0.2]
    assert found[0].tolist() == pytest.approx(expected)
    assert found[1, :2].tolist() == pytest.approx([-0.2, -0.1])


def test_logits_are_linear_in_the_features():
    """With the intercept."""
    gate = Gate(weights=(10.0, 0.0, 2.0, 4.0, 0.0, 0.0, 0.0, 0.0, 0.0), intercept=-1.0)
    found = gate.logits(floats(0.7), floats(0.5), floats(0.5), text_features())
    assert found.tolist() == pytest.approx([3.0])


def test_a_catalogue_larger_than_those_of_the_fit_needs_more_evidence_where_no_word_is_found():
    """With words, or in one of the size of the fit's, nothing changes."""
    gate = Gate(weights=(10.0, *[0.0] * 8), intercept=0.0)

    def logits(entries: int, coverage: float) -> float:
        found = text_features(entries=entries)
        return float(gate.logits(floats(0.7), floats(coverage), floats(0.5), found)[0])

    assert logits(2_479, 0.0) < logits(1_000, 0.0) < logits(500, 0.0) == logits(10, 0.0)
    assert logits(2_479, 0.0) < logits(2_479, 0.1) < logits(2_479, 0.2) == logits(10, 0.0)
    assert logits(2_479, 0.0) == logits(1_000_000, 0.0)  # not measured beyond


def test_probability_falls_with_the_distance_to_the_best_score_and_with_the_rank():
    """Slower for a request of many words; a literal match is certain."""
    short = judge(1.0, 3, floats(8.0, 0.0, -0.1, -0.5)).probabilities
    long = judge(1.0, 10, floats(0.0, -0.1)).probabilities
    odds = [1.0 - 0.8 * np.log(2), 1.0 - 0.55 - 0.8 * np.log(3), 1.0 - 2.75 - 0.8 * np.log(4)]
    expected = [1.0, *(1 / (1 + np.exp(-value)) for value in odds)]
    assert short.tolist() == pytest.approx(expected, abs=1e-3)
    assert long.tolist() == pytest.approx([0.7311, 0.5425], abs=1e-3)


def test_entries_far_below_the_best_are_left_out():
    """Those whose odds are less than 1/35 of the best's; more are kept for a long request."""
    behind = floats(0.0, -0.3, -0.6, -0.7)
    assert judge(3.0, 3, behind).returned.tolist() == [True, True, False, False]
    assert judge(3.0, 25, behind).returned.tolist() == [True] * 4


def test_tail_of_a_doubtful_ranking_is_cut_at_the_floor():
    """However near the best is: an entry of .04 is no result beside one of .2."""
    doubtful = judge(float(np.log(0.2 / 0.8)), 3, floats(0.0, -0.1, -0.2, -0.3))
    assert doubtful.returned.tolist() == [True, True, False, False]
    assert doubtful.probabilities[1] > 0.05 > doubtful.probabilities[2]


def test_nothing_is_returned_without_evidence_but_a_literal_match():
    """The best entry needs the least probability."""
    least = float(np.log(LEAST / (1 - LEAST)))
    assert judge(least + 0.01, 3, floats(0.0, -0.1)).returned.tolist() == [True, True]
    assert judge(least - 0.01, 3, floats(0.0, -0.1)).returned.tolist() == [False, False]
    assert judge(least - 0.01, 3, floats(4.0, 0.0)).returned.tolist() == [True, False]


def test_first_page_ends_where_scores_fall_off():
    """Later ranks must be nearer to the best; ten equal ones are a page, and so is one alone."""
    assert judge(3.0, 3, floats(0.0, -0.2, -0.3, -0.9, -0.9)).first_page == 3
    assert judge(3.0, 3, floats(0.0, -0.2, -0.2, -0.2, -0.3)).first_page == 4
    assert judge(3.0, 3, np.zeros(30, dtype=np.float32)).first_page == 10
    assert judge(3.0, 3, floats(6.0)).first_page == 1


@pytest.mark.parametrize("model", [MODEL_NAME, HashEmbedder.model])
def test_more_evidence_is_more_probable(model):
    """In the fitted weights, nearness, words and agreement count for an entry, corrections against it."""
    gate = load_gate(model)
    same = floats(0.6, 0.6)
    near, far = gate.logits(floats(0.7, 0.5), floats(0.3, 0.3), same, text_features())
    known, unknown = gate.logits(same, floats(0.9, 0.1), same, text_features())
    alike, other = gate.logits(same, floats(0.3, 0.3), floats(0.7, 0.5), text_features())
    plain = gate.logits(same, same, same, text_features())[0]
    corrected = gate.logits(same, same, same, text_features(corrected=1.0))[0]
    assert near > far
    assert known > unknown
    assert alike > other
    assert plain > corrected


def test_unknown_model_is_refused_with_what_to_do():
    """Weights of one model say nothing about another."""
    with pytest.raises(ValueError, match="fit_gate"):
        load_gate("nobody/nothing")
