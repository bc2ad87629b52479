"""The probability that an entry serves a query."""

from __future__ import annotations

import numpy as np
import pytest

from searchbus_toolindex.cohort import Nearness
from searchbus_toolindex.gate import FEATURES, Circumstances, Gate, features, load_gate
from searchbus_vectors.hash_embedder import HashEmbedder
from searchbus_vectors.model_files import MODEL_NAME


def floats(*values: float):
    return np.array(values, dtype=np.float32)


def circumstances(**changed) -> Circumstances:
    given = {"nearness": Nearness(0.6, 0.5), "terms": 3, "corrected": 0.0, "entries": 92}
    return Circumstances(**{**given, **changed})


def test_features_are_margins_coverage_and_circumstances():
    """Logarithms of the numbers of terms and of entries, of which there are never few."""
    found = features(floats(0.7, 0.4), floats(0.5, 0.0), circumstances())
    assert found.shape == (2, len(FEATURES))
    assert found[0].tolist() == pytest.approx([0.1, 0.2, 0.5, np.log(3), 0.0, np.log(100)])
    assert found[1, :2].tolist() == pytest.approx([-0.2, -0.1])


def test_logits_are_linear_in_the_features():
    """With the intercept."""
    gate = Gate(weights=(10.0, 0.0, 2.0, 0.0, 0.0, 0.0), intercept=-1.0, slope=5.0)
    assert gate.logits(floats(0.7), floats(0.5), circumstances()).tolist() == pytest.approx([1.0])


def test_probability_falls_with_the_distance_to_the_best_score():
    """Slower for a request of many words; a literal match is certain."""
    gate = Gate(weights=(0.0,) * 6, intercept=0.0, slope=10.0)
    short = gate.probabilities(1.0, 3, floats(0.0, -0.1, -0.5, 8.0))
    long = gate.probabilities(1.0, 12, floats(0.0, -0.1, -0.5))
    assert short.tolist() == pytest.approx([0.7311, 0.5, 0.018, 1.0], abs=1e-3)
    assert long.tolist() == pytest.approx([0.7311, 0.6225, 0.1824], abs=1e-3)


@pytest.mark.parametrize("model", [MODEL_NAME, HashEmbedder.model])
def test_more_evidence_is_more_probable(model):
    """In the fitted weights, nearness and words count for an entry, corrections against it."""
    gate = load_gate(model)
    near, far = gate.logits(floats(0.7, 0.5), floats(0.3, 0.3), circumstances())
    known, unknown = gate.logits(floats(0.6, 0.6), floats(0.9, 0.1), circumstances())
    (plain,) = gate.logits(floats(0.6), floats(0.5), circumstances())
    (corrected,) = gate.logits(floats(0.6), floats(0.5), circumstances(corrected=1.0))
    assert near > far
    assert known > unknown
    assert plain > corrected
    assert gate.slope > 0


def test_unknown_model_is_refused_with_what_to_do():
    """Weights of one model say nothing about another."""
    with pytest.raises(ValueError, match="fit_gate"):
        load_gate("nobody/nothing")
