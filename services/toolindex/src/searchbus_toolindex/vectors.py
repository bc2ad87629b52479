"""The vectors of entries: the mean of text and summary, and the examples; the nearest counts."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from searchbus_vectors import Vector

from .embedding import unit
from .lexicon import Floats
from .vector_table import VectorTable

__all__ = ["EntryVectors"]


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


_NOBODY = -1
