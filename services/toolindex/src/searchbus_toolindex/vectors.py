"""The vectors of entries: the mean of text and summary, and the examples; the nearest counts.

Each is kept in full, and rounded to int8 for a first look at all of them: an estimate reads a
quarter of the bytes, and its products are whole numbers, so that equal vectors have equal estimates
on every machine.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

import numkong
import numpy as np
from numpy.typing import NDArray

from searchbus_vectors import Vector

from .embedding import unit
from .lexicon import Floats

_LEVELS = 127
_NOBODY = -1
T = TypeVar("T", bound=np.generic)


class VectorTable:
    """Vectors of unit length; a row without one has the cosine 0. Times `penalty` is taken from
    cosines."""

    def __init__(self, penalty: Vector) -> None:
        self._penalty = penalty
        self._full: Floats = np.zeros((64, len(penalty)), dtype=np.float32)
        self._rounded: NDArray[np.int8] = np.zeros((64, len(penalty)), dtype=np.int8)
        self._steps: Floats = np.zeros(64, dtype=np.float32)
        self._penalties: Floats = np.zeros(64, dtype=np.float32)

    def put(self, row: int, vector: Vector) -> None:
        """Set the vector of a row; the table grows as needed."""
        if row >= len(self._full):
            # A quarter at a time: doubling would hold twice the memory that is needed.
            more = max(64, row + 1 - len(self._full), len(self._full) // 4)
            self._full = _grown(self._full, more)
            self._rounded = _grown(self._rounded, more)
            self._steps = _grown(self._steps, more)
            self._penalties = _grown(self._penalties, more)
        self._full[row] = vector
        self._rounded[row], self._steps[row] = _round(self._full[row])
        self._penalties[row] = np.einsum("j,j->", self._full[row], self._penalty)

    def clear(self, row: int) -> None:
        """Remove the vector of a row."""
        self._full[row] = 0
        self._rounded[row] = 0
        self._penalties[row] = 0

    def estimate(self, vectors: Sequence[Vector], rows: int) -> Floats:
        """Estimated cosines, shape (vectors, rows), of each vector with each of the first rows."""
        rounded = [_round(np.asarray(vector, dtype=np.float32)) for vector in vectors]
        levels = np.stack([found for found, _ in rounded])
        steps = np.array([step for _, step in rounded], dtype=np.float32)
        products = np.asarray(numkong.cdist(levels, self._rounded[:rows], metric="dot"))
        estimates: Floats = products.astype(np.float32) * self._steps[:rows] * steps[:, None]
        estimates -= self._penalties[:rows]
        return estimates

    def cosines(self, rows: NDArray[np.intp], vector: Vector) -> Floats:
        """The cosine of each of these rows with a vector; equal rows give equal bits.

        BLAS (`@`) adds up some rows in another order than others, so that replicas whose rows
        differ got scores that differ in the last digit shown.
        """
        cosines: Floats = self.products(rows, vector) - self._penalties[rows]
        return cosines

    def products(self, rows: NDArray[np.intp], vector: Vector) -> Floats:
        """The product of each of these rows with a vector, without the penalty."""
        products: Floats = np.einsum("ij,j->i", self._full[rows], vector)
        return products


class EntryVectors:
    """Vectors by slot; every cosine is less the product of the vector with the penalty."""

    def __init__(self, penalty: Vector) -> None:
        self._size = 0
        self._texts = VectorTable(penalty)
        self._examples = VectorTable(penalty)
        self._example_rows: dict[int, list[int]] = {}
        self._owners: list[int] = []
        self._free: list[int] = []
        self._used: tuple[NDArray[np.intp], NDArray[np.intp]] | None = None

    def put(self, slot: int, vectors: Sequence[Vector]) -> None:
        """Set the vectors of a free slot: of its text, its summary and its examples."""
        self._size = max(self._size, slot + 1)
        text, summary, *examples = vectors
        self._texts.put(slot, unit(text + summary))
        for vector in examples:
            if self._free:
                row = self._free.pop()
            else:
                row = len(self._owners)
                self._owners.append(_NOBODY)
            self._owners[row] = slot
            self._examples.put(row, vector)
            self._example_rows.setdefault(slot, []).append(row)
            self._used = None

    def clear(self, slot: int) -> None:
        """Remove the vectors of a slot."""
        self._texts.clear(slot)
        for row in self._example_rows.pop(slot, ()):
            self._examples.clear(row)
            self._owners[row] = _NOBODY
            self._free.append(row)
            self._used = None

    def estimate(self, vectors: Sequence[Vector]) -> Floats:
        """Estimated cosines, shape (vectors, slots)."""
        found = self._texts.estimate(vectors, self._size)
        rows, owners = self._rows()
        if len(rows):
            examples = self._examples.estimate(vectors, len(self._owners))[:, rows]
            for cosines, of_examples in zip(found, examples, strict=True):
                np.maximum.at(cosines, owners, of_examples)
        return found

    def cosines(self, slots: NDArray[np.intp], vector: Vector) -> Floats:
        """The exact cosine of each of these slots with a vector."""
        found = self._texts.cosines(slots, vector)
        pairs = [
            (place, row)
            for place, slot in enumerate(slots.tolist())
            for row in self._example_rows.get(slot, ())
        ]
        if pairs:
            places, rows = np.array(pairs, dtype=np.intp).T
            np.maximum.at(found, places, self._examples.cosines(rows, vector))
        return found

    def agreement(self, slots: NDArray[np.intp], expected: Vector) -> Floats:
        """The product of the text of each of these slots with a vector, without the penalty."""
        return self._texts.products(slots, expected)

    def _rows(self) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """The rows of examples that are in use, and the slot of each."""
        if self._used is None:
            owners = np.array(self._owners, dtype=np.intp)
            rows = np.flatnonzero(owners != _NOBODY)
            self._used = (rows, owners[rows])
        return self._used


def _round(vector: Floats) -> tuple[NDArray[np.int8], np.float32]:
    """Whole numbers from -127 to 127, and the size of one step."""
    step = np.float32(np.abs(vector).max() / _LEVELS)
    if step == 0:
        return np.zeros(len(vector), dtype=np.int8), step
    return np.rint(vector / step).astype(np.int8), step


def _grown(array: NDArray[T], more: int) -> NDArray[T]:
    return np.concatenate([array, np.zeros((more, *array.shape[1:]), dtype=array.dtype)])
