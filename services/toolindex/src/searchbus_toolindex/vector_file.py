"""Keeps the vectors of indexed texts on disk, so that a restart embeds only new texts.

New records are appended to one file: `key[16] vector[384 × float32]`, where the key is a hash of
model and text. An incomplete record at the end is removed; records that are not of unit length
are ignored.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Iterable, Mapping
from pathlib import Path

import numpy as np

from searchbus_runtime.files import write_atomically
from searchbus_vectors import DIMENSIONS, Vector

__all__ = ["VectorFile", "text_key"]

log = logging.getLogger("searchbus.toolindex")

_RECORD = np.dtype([("key", "V16"), ("vector", "<f4", (DIMENSIONS,))])
_MAX_RECORDS = 200_000


def text_key(model: str, text: str) -> bytes:
    """The key of a text's vector."""
    return hashlib.sha256(f"{model}\0{text}".encode()).digest()[:16]


class VectorFile:
    """A cache of vectors. With `path` None they are kept in memory only."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._vectors: dict[bytes, Vector] = {}
        if path is not None:
            self._read(path)

    def __len__(self) -> int:
        return len(self._vectors)

    def get(self, key: bytes) -> Vector | None:
        """The vector of a key, or None."""
        return self._vectors.get(key)

    def add(self, vectors: Mapping[bytes, Vector]) -> None:
        """Add vectors. If the disk is full, the next start embeds them again."""
        self._vectors.update(vectors)
        if self._path is None or not vectors:
            return
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            with self._path.open("ab") as file:
                file.write(_records(vectors.items()).tobytes())
        except OSError as error:
            log.warning("vectors could not be written to %s: %s", self._path, error)

    def keep_only(self, keys: Iterable[bytes]) -> None:
        """Remove all other vectors once the file is large; call it after the index is built."""
        if self._path is None or len(self._vectors) <= _MAX_RECORDS:
            return
        wanted = set(keys)
        self._vectors = {k: v for k, v in self._vectors.items() if k in wanted}
        try:
            write_atomically(self._path, _records(self._vectors.items()).tobytes())
        except OSError as error:
            log.warning("vectors could not be written to %s: %s", self._path, error)

    def _read(self, path: Path) -> None:
        try:
            size = path.stat().st_size
        except OSError:
            return
        whole = size // _RECORD.itemsize
        if whole * _RECORD.itemsize != size:
            with path.open("r+b") as file:
                file.truncate(whole * _RECORD.itemsize)
        for record in np.fromfile(path, dtype=_RECORD, count=whole):
            vector = record["vector"]
            # Vectors have unit length: anything else was not written here.
            if abs(float(vector @ vector) - 1.0) < 1e-3:
                self._vectors[record["key"].tobytes()] = vector.copy()


def _records(vectors: Iterable[tuple[bytes, Vector]]) -> np.ndarray:
    items = list(vectors)
    records = np.zeros(len(items), dtype=_RECORD)
    for record, (key, vector) in zip(records, items, strict=True):
        record["key"] = np.void(key)
        record["vector"] = vector
    return records
