"""Vectors of entries with examples, and the table that holds them."""

from __future__ import annotations

import numpy as np
import pytest

from searchbus_toolindex.vectors import EntryVectors, VectorTable
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


def units(number: int) -> np.ndarray:
    vectors = np.random.default_rng(7).standard_normal((number, DIMENSIONS)).astype(np.float32)
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


@pytest.fixture
def table():
    table = VectorTable(NO_PENALTY)
    for row, vector in enumerate(units(300)):
        table.put(row, vector)
    return table


def test_estimates_are_near_the_cosines(table):
    """Within .005, for several vectors at once and beyond the first size of the table."""
    queries = units(300)[[5, 250]]
    exact = np.stack([table.cosines(np.arange(300), query) for query in queries])
    np.testing.assert_allclose(exact, queries @ units(300).T, atol=1e-6)
    np.testing.assert_allclose(table.estimate(queries, 300), exact, atol=0.005)


def test_equal_vectors_have_equal_estimates_in_any_row(table):
    """To the last bit."""
    other = VectorTable(NO_PENALTY)
    for row, vector in enumerate(reversed(units(300))):
        other.put(row, vector)
    (one,), (two,) = (t.estimate(units(1), 300) for t in (table, other))
    assert one.tolist() == two[::-1].tolist()


def test_row_without_a_vector_has_the_cosine_zero(table):
    """After it was cleared, and where none was put."""
    table.clear(3)
    assert table.estimate(units(1), 5)[0, 3] == 0
    assert table.cosines(np.array([3]), units(1)[0]).tolist() == [0]
    table.put(400, np.zeros(DIMENSIONS, dtype=np.float32))
    assert table.estimate(units(1), 401)[0, [350, 400]].tolist() == [0, 0]


@pytest.mark.parametrize("exact", [True, False])
def test_penalty_is_taken_from_every_cosine(exact):
    """The product of the row's vector with it; none for a row without a vector."""
    near, far = units(2)
    table = VectorTable(0.5 * near)
    table.put(0, near)
    table.put(1, far)
    table.put(2, near)
    table.clear(2)
    found = table.cosines(np.arange(3), near) if exact else table.estimate([near], 3)[0]
    expected = [0.5, 0.5 * float(near @ far), 0.0]
    assert found.tolist() == pytest.approx(expected, abs=0.005)
