"""The fit of the fall along a ranking, on invented places."""

from __future__ import annotations

import math

import numpy as np
import pytest

from .fit_falloff import Place, fit


def test_fall_that_the_places_follow_is_found():
    """By distance and by rank."""
    dice = np.random.default_rng(3)
    places = []
    for _ in range(4000):
        behind, rank = -float(dice.uniform(0, 0.5)), int(dice.integers(1, 11))
        odds = 1.0 + 6.0 * behind - 1.5 * math.log(rank)
        places.append(Place("set", behind, rank, bool(dice.random() < 1 / (1 + math.exp(-odds)))))
    slope, rank_weight = fit(places)
    assert slope == pytest.approx(6.0, abs=1.5)
    assert rank_weight == pytest.approx(1.5, abs=0.4)
