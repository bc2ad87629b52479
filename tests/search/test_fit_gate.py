"""The fit of the gate, on invented examples."""

from __future__ import annotations

import numpy as np
import pytest

from searchbus_toolindex.scoring import FEATURES

from .fit_gate import Example, fit, logit


def example(served: bool, *rows: list[float]) -> Example:
    return Example("set", "queries" if served else "nonsense", served, "q", np.array(rows))


def row(margin: float, coverage: float) -> list[float]:
    return [margin, margin, coverage, 0.5, 1.0, 0.0, 3.0, 0.0, 0.0]


@pytest.fixture
def examples() -> list[Example]:
    """Served queries have one near candidate beside a far one; the others have far ones only."""
    dice = np.random.default_rng(7)
    found = []
    for number in range(60):
        far = row(float(dice.normal(-0.1, 0.03)), float(dice.uniform(0, 0.3)))
        near = row(float(dice.normal(0.1, 0.03)), float(dice.uniform(0.2, 0.6)))
        found.append(example(True, far, near) if number % 2 else example(False, far, far))
    return found


def test_fitted_gate_tells_served_queries_from_others(examples):
    """By the best candidate of each."""
    gate = fit(examples)
    assert len(gate.weights) == len(FEATURES)
    assert sum((logit(gate, e) > 0) == e.served for e in examples) >= 57


def test_order_of_examples_does_not_matter(examples):
    """So that a fit can be repeated."""
    one, other = fit(examples), fit(examples[::-1])
    assert one.weights == pytest.approx(other.weights, abs=2e-3)
