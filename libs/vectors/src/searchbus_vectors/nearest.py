"""An index of the nearest vectors of one collection (HNSW, by usearch), beside the engine.

It grows with every vector: .2 ms each; the engine's own is built at once, which takes minutes. The
engine scores and filters the answers, so an id that was deleted there does no harm.

Nothing is removed from the graph: after some hundred removals usearch's `remove` never ends, and it
holds Python's lock (its issues 753 and 769). Rows are marked as gone; the owner builds the index
again once it is `worn`.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray
from usearch.index import Index

from .points import DIMENSIONS

log = logging.getLogger("searchbus.vectors")

_UNIT = 8
"""Vectors added while searches wait: under 2 ms."""
_GRAPH, _IDS = "nearest.usearch", "nearest.ids"
_GONE = "-"
"""In place of the id of a row that was removed."""
_CROWD = 64
"""Rows that usearch compares a new one with (`expansion_add`). If all of them are gone, it links
the new one to them alone, and searches of its surroundings may not find it."""
_BREADTH = 400
"""Rows that a search compares at least."""


class NearestIndex:
    """Ids (UUID strings) by their vectors. Safe to use from several threads."""

    def __init__(self, dimensions: int = DIMENSIONS) -> None:
        self.dimensions = dimensions
        # usearch moves its memory when it grows, so nothing may search meanwhile.
        self._lock = threading.Lock()
        self._graph = _empty(dimensions)
        self._ids: list[str] = []
        self._keys: dict[str, int] = {}
        self._crowded = False

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
        fault: object = None
        try:
            self._ids = ids.read_text().split()
            self._keys = {key: row for row, key in enumerate(self._ids) if key != _GONE}
            ids.unlink()
            self._graph.load(os.fspath(graph))
            if len(self._graph) != len(self._ids):
                fault = f"{len(self._graph)} vectors for {len(self._ids)} ids"
        except Exception as error:  # usearch has no class of its own for a damaged file
            fault = error
        ids.unlink(missing_ok=True)
        graph.unlink(missing_ok=True)
        if fault is None:
            return self
        log.warning("%s is damaged (%s); it is built again", graph, fault)
        return None

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

    @property
    def worn(self) -> bool:
        """Whether a third of the rows is gone, or most of those around one that was removed."""
        return self._crowded or len(self._ids) > 1.5 * len(self._keys) + _CROWD

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
            gone = [self._keys.pop(key) for key in ids if key in self._keys]
            for row in gone:
                self._ids[row] = _GONE
            if gone and not self._crowded:
                # One of them is enough: the passages of a document come and go together.
                one = cast(NDArray[Any], self._graph.get(gone[-1]))
                around = self._rows(one, _CROWD)
                self._crowded = around.count(_GONE) > 0.75 * _CROWD

    def search(self, vector: Sequence[float], limit: int) -> list[str]:
        """At most `limit` ids, nearest first."""
        query: NDArray[np.float32] = np.asarray(vector, np.float32)
        with self._lock:
            if not self._keys:
                return []
            if len(self._ids) > len(self._keys):
                # As many that are left are compared as if there were no others.
                wanted = max(limit, _BREADTH) * len(self._ids) // len(self._keys) + _CROWD
            else:
                wanted = limit
            rows = self._rows(query, wanted)
        return [key for key in rows if key != _GONE][:limit]

    def _rows(self, vector: NDArray[Any], limit: int) -> list[str]:
        found = self._graph.search(vector, limit, threads=1)
        return [self._ids[int(row)] for row in found.keys]


def _sync(path: Path) -> None:
    with path.open("rb") as file:
        os.fsync(file.fileno())


def _empty(dimensions: int) -> Index:
    # 8 bits would halve the memory, and lose one in five of the hundred nearest.
    return Index(
        ndim=dimensions, metric="cos", dtype="f16", connectivity=16, expansion_add=_CROWD,
        expansion_search=_BREADTH,
    )  # fmt: skip
