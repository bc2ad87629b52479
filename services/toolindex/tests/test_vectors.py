"""Vectors of entries with examples."""

from __future__ import annotations

import numpy as np
import pytest

from searchbus_toolindex.vectors import EntryVectors
from searchbus_vectors import DIMENSIONS
from searchbus_vectors.hash_embedder import hashed_vector

MAIL, CHART, FISH = (hashed_vector(text) for text in ("send mail", "pie chart", "goldfish"))
NO_PENALTY = np.zeros(DIMENSIONS, dtype=np.float32)


@pytest.mark.parametrize("exact", [True, False])
def test_nearest_of_text_and_examples_counts(exact):
    """Estimated and exact alike."""
    vectors = EntryVectors(NO_PENALTY)
    vectors.put(0, [MAIL, MAIL])
    vectors.put(1, [CHART, CHART, FISH])
    found = vectors.cosines(np.array([0, 1]), FISH) if exact else vectors.estimate([FISH])[0]
    assert found[1] == pytest.approx(1.0, abs=0.01)
    assert found[0] < 0.8


def test_examples_of_a_cleared_slot_are_gone():
    """And its rows are used again."""
    vectors = EntryVectors(NO_PENALTY)
    vectors.put(0, [CHART, CHART, FISH, MAIL])
    vectors.put(1, [MAIL, MAIL])
    vectors.clear(0)
    assert vectors.estimate([FISH])[0][0] == 0
    vectors.put(0, [MAIL, MAIL])
    vectors.put(2, [CHART, CHART, FISH])
    assert vectors.estimate([FISH])[0].argmax() == 2
    assert vectors.cosines(np.array([0, 1, 2]), FISH).argmax() == 2


def test_text_and_summary_count_alike():
    """Their mean has unit length."""
    vectors = EntryVectors(NO_PENALTY)
    vectors.put(0, [MAIL, FISH])
    mail, fish = (vectors.cosines(np.array([0]), query)[0] for query in (MAIL, FISH))
    assert mail == pytest.approx(fish, abs=1e-6)
    assert mail == pytest.approx(np.sqrt((1 + MAIL @ FISH) / 2), abs=1e-6)
