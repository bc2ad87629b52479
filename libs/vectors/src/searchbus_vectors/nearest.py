"""An index of the nearest vectors of one collection (HNSW, by usearch), beside the engine.

It grows with every vector: .2 ms each; the engine's own is built at once, which takes minutes. The
engine scores and filters the answers, so an id that was deleted there does no harm.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from usearch.index import Index

from .points import DIMENSIONS

log = logging.getLogger("searchbus.vectors")

_UNIT = 8
"""Vectors added while searches wait: under 2 ms."""
_GRAPH, _IDS = "nearest.usearch", "nearest.ids"


class NearestIndex:
    """Ids (UUID strings) by their vectors. Safe to use from several threads."""

    def __init__(self, dimensions: int = DIMENSIONS) -> None:
        self.dimensions = dimensions
        # usearch moves its memory when it grows, so nothing may search meanwhile.
        self._lock = threading.Lock()
        self._graph = _empty(dimensions)
        self._ids: list[str] = []
        self._keys: dict[str, int] = {}

    @classmethod
    def load(cls, folder: Path, dimensions: int = DIMENSIONS) -> NearestIndex | None:
        """The index that `save` wrote, or `None`.

        The files are removed: after a crash they would lack what was added since.
        """
        graph, ids = folder / _GRAPH, folder / _IDS
        if not ids.is_file():
            graph.unlink(missing_ok=True)
            return None
        self = cls(dimensions)
        try:
            self._ids = ids.read_text().split()
            self._keys = {key: number for number, key in enumerate(self._ids) if key != _REMOVED}
            ids.unlink()
            self._graph.load(os.fspath(graph))
            complete = len(self._graph) == len(self._keys)
        except Exception as error:  # usearch has no class of its own for a damaged file
            log.warning("%s is damaged (%s); it is built again", graph, error)
            complete = False
        ids.unlink(missing_ok=True)
        graph.unlink(missing_ok=True)
        return self if complete else None

    def save(self, folder: Path) -> None:
        """Write the index to a folder."""
        with self._lock:
            self._graph.save(os.fspath(folder / _GRAPH))
            _sync(folder / _GRAPH)
            # Written last and renamed: without it the graph does not count.
            partial = folder / f".{_IDS}"
            partial.write_text("\n".join(self._ids))
            _sync(partial)
            partial.replace(folder / _IDS)

    def __len__(self) -> int:
        return len(self._keys)

    def __contains__(self, key: str) -> bool:
        return key in self._keys

    def add(self, ids: Sequence[str], vectors: Sequence[Sequence[float]]) -> None:
        """Add vectors; an id that is present gets the new one."""
        self.remove(ids)
        for start in range(0, len(ids), _UNIT):
            unit = ids[start : start + _UNIT]
            rows: NDArray[np.float32] = np.asarray(vectors[start : start + _UNIT], np.float32)
            with self._lock:
                first = len(self._ids)
                numbers = np.arange(first, first + len(unit), dtype=np.uint64)
                self._graph.add(numbers, rows, threads=1)
                self._ids.extend(unit)
                self._keys.update(zip(unit, range(first, first + len(unit)), strict=True))

    def remove(self, ids: Sequence[str]) -> None:
        """Remove ids; one that is absent is ignored."""
        with self._lock:
            for key in ids:
                number = self._keys.pop(key, None)
                if number is not None:
                    self._graph.remove(number)
                    self._ids[number] = _REMOVED

    def search(self, vector: Sequence[float], limit: int) -> list[str]:
        """At most `limit` ids, nearest first."""
        query: NDArray[np.float32] = np.asarray(vector, np.float32)
        with self._lock:
            if not self._keys:
                return []
            found = self._graph.search(query, limit, threads=1)
            return [self._ids[int(number)] for number in found.keys]


_REMOVED = "-"


def _sync(path: Path) -> None:
    with path.open("rb") as file:
        os.fsync(file.fileno())


def _empty(dimensions: int) -> Index:
    # 8 bits would halve the memory, and lose one in five of the hundred nearest.
    return Index(
        ndim=dimensions, metric="cos", dtype="f16", connectivity=16, expansion_add=64,
        expansion_search=400,
    )  # fmt: skip
