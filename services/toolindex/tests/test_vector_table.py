"""Vectors by row, in full and rounded."""

from __future__ import annotations

import numpy as np
import pytest

from searchbus_toolindex.vector_table import VectorTable
from searchbus_vectors import DIMENSIONS

NO_PENALTY = np.zeros(DIMENSIONS, dtype=np.float32)


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
