"""The probability that an entry serves a query."""

from __future__ import annotations

import numpy as np
import pytest

from searchbus_toolindex.gate import (
    FEATURES,
    LEAST,
    Circumstances,
    Gate,
    features,
    judge,
    load_gate,
)
from searchbus_vectors.hash_embedder import HashEmbedder
from searchbus_vectors.models import MODEL_NAME

from .conftest import NEARNESS, floats


def circumstances(**changed) -> Circumstances:
    given = {"nearness": NEARNESS, "terms": 3, "corrected": 0.0, "strange": 0.25, "entries": 92}
    return Circumstances(**{**given, **changed})


def test_features_are_margins_coverage_agreement_and_circumstances():
    """Logarithms of the numbers of terms and of entries, of which there are never few."""
    found = features(floats(0.7, 0.4), floats(0.5, 0.0), floats(0.8, 0.3), circumstances())
    assert found.shape == (2, len(FEATURES))
    expected = [0.1, 0.2, 0.5, 0.8, np.log(3), 0.0, np.log(100), 0.25, 0.2]
    assert found[0].tolist() == pytest.approx(expected)
    assert found[1, :2].tolist() == pytest.approx([-0.2, -0.1])


def test_logits_are_linear_in_the_features():
    """With the intercept."""
    gate = Gate(weights=(10.0, 0.0, 2.0, 4.0, 0.0, 0.0, 0.0, 0.0, 0.0), intercept=-1.0)
    found = gate.logits(floats(0.7), floats(0.5), floats(0.5), circumstances())
    assert found.tolist() == pytest.approx([3.0])


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
    near, far = gate.logits(floats(0.7, 0.5), floats(0.3, 0.3), same, circumstances())
    known, unknown = gate.logits(same, floats(0.9, 0.1), same, circumstances())
    alike, other = gate.logits(same, floats(0.3, 0.3), floats(0.7, 0.5), circumstances())
    plain = gate.logits(same, same, same, circumstances())[0]
    corrected = gate.logits(same, same, same, circumstances(corrected=1.0))[0]
    assert near > far
    assert known > unknown
    assert alike > other
    assert plain > corrected


def test_unknown_model_is_refused_with_what_to_do():
    """Weights of one model say nothing about another."""
    with pytest.raises(ValueError, match="fit_gate"):
        load_gate("nobody/nothing")
