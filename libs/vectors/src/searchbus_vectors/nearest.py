"""An index of the nearest vectors of one collection (HNSW, by usearch), beside the engine.

It grows with every vector: .2 ms each; the engine's own is built at once, which takes minutes. The
engine scores and filters the answers, so an id that was deleted there does no harm.

Nothing is removed from the graph: after some hundred removals usearch's `remove` never ends, and it
holds Python's lock (its issues 753 and 769). Rows are marked as gone. What is added among such is
kept apart, since the graph may not lead to it: each search proposes it. The owner builds the index
again once it is `worn`.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from usearch.index import Index

from .points import DIMENSIONS

log = logging.getLogger("searchbus.vectors")

_UNIT = 8
"""Vectors added while searches wait: under 2 ms."""
_GRAPH, _IDS = "nearest.usearch", "nearest.ids"
_GONE, _APART = "-", "+"
"""In place of the id of a row that was removed; before one that is apart, in the file."""
_CROWD = 64
"""Rows that usearch compares a new one with (`expansion_add`). If all of them are gone, it links
the new one to them alone, and searches of its surroundings may not find it."""
_MOST_APART, _SHARE_APART = 1_000, 1 / 20
"""Rows apart, and their share of the index, above which it is built again."""
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
        self._apart: set[str] = set()

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
            rows = ids.read_text().split()
            self._ids = [row.removeprefix(_APART) for row in rows]
            self._apart = {row[1:] for row in rows if row.startswith(_APART)}
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
            partial.write_text("\n".join(_APART * (key in self._apart) + key for key in self._ids))
            _sync(partial)
            partial.replace(folder / _IDS)

    def __len__(self) -> int:
        return len(self._keys)

    def __contains__(self, key: str) -> bool:
        return key in self._keys

    @property
    def worn(self) -> bool:
        """Whether a third of the rows is gone, or so many are apart that searches are slow."""
        left = len(self._keys)
        most_apart = max(_CROWD, min(_MOST_APART, _SHARE_APART * left))
        return len(self._apart) > most_apart or len(self._ids) > 1.5 * left + _CROWD

    def add(self, ids: Sequence[str], vectors: Sequence[Sequence[float]]) -> None:
        """Add vectors; an id that is present gets the new one."""
        self.remove(ids)
        for start in range(0, len(ids), _UNIT):
            unit = ids[start : start + _UNIT]
            rows: NDArray[np.float32] = np.asarray(vectors[start : start + _UNIT], np.float32)
            self._set_apart(unit, rows)
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
            self._apart.difference_update(ids)

    def _set_apart(self, ids: Sequence[str], vectors: NDArray[np.float32]) -> None:
        """Keep new rows apart where most around them are gone, with what is left there: it loses
        its links to them."""
        crowd = 0.75 * _CROWD
        if len(self._ids) - len(self._keys) <= crowd:
            return
        for key, vector in zip(ids, vectors, strict=True):
            with self._lock:
                around = self._rows(vector, _CROWD)
                if around.count(_GONE) > crowd:
                    self._apart.update({key, *around} - {_GONE})

    def search(self, vector: Sequence[float], limit: int) -> list[str]:
        """At most `limit` ids, nearest first, and then those that are apart; none where the graph
        leads to fewer than there are."""
        query: NDArray[np.float32] = np.asarray(vector, np.float32)
        with self._lock:
            if not self._keys:
                return []
            if len(self._ids) > len(self._keys):
                # As many that are left are compared as if there were no others.
                wanted = max(limit, _BREADTH) * len(self._ids) // len(self._keys) + _CROWD
            else:
                wanted = limit
            found = [key for key in self._rows(query, wanted) if key != _GONE][:limit]
            if len(found) < min(limit, len(self._keys)):
                return []
            return list(dict.fromkeys([*found, *self._apart]))

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
