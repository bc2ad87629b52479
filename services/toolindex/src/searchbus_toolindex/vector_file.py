"""Keeps the vectors of indexed texts on disk, so that a restart embeds only new texts.

New records are appended to one file: `key[16] vector[dimensions × float32]`, where the key is a
hash of model and text. An incomplete record at the end is removed; records that are not of unit
length are ignored.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Iterable, Mapping
from importlib.resources import files
from pathlib import Path

import numpy as np

from searchbus_runtime.files import write_atomically
from searchbus_vectors import DIMENSIONS, Vector

from .embedding import unit

log = logging.getLogger("searchbus.toolindex")

_KEY_BYTES = 16
MOST_RECORDS = 200_000
"""Beyond this a file is written anew, with the vectors of now alone."""
_READ_AT_ONCE = 4096
SHIPPED = Path(str(files(__package__).joinpath("shipped.npz")))


def text_key(model: str, text: str) -> bytes:
    """The key of a text's vector."""
    return hashlib.sha256(f"{model}\0{text}".encode()).digest()[:_KEY_BYTES]


def shipped_vectors(model: str) -> dict[bytes, Vector]:
    """Key of a text (`text_key`) → its vector by this model, of unit length, for searchbus's own
    tools; empty for most models. Raises OSError where the package lacks the file."""
    with np.load(SHIPPED) as arrays:
        if f"{model}/keys" not in arrays:
            return {}
        rows = zip(arrays[f"{model}/keys"], arrays[f"{model}/vectors"], strict=True)
        return {key.tobytes(): unit(vector.astype(np.float32)) for key, vector in rows}


class VectorFile:
    """A cache of vectors, which are read from the file when needed, or kept in memory where it
    cannot be used. A file of other `dimensions` counts as empty; `shipped` vectors need not be
    kept."""

    def __init__(
        self,
        path: Path | None,
        dimensions: int = DIMENSIONS,
        shipped: Mapping[bytes, Vector] | None = None,
    ) -> None:
        self._path = path
        self._shipped = shipped or {}
        self._record = np.dtype([("key", "V16"), ("vector", "<f4", (dimensions,))])
        self._numbers: dict[bytes, int] = {}
        self._kept: dict[bytes, Vector] = {}
        if path is not None:
            try:
                self._scan(path)
            except FileNotFoundError:
                return
            except OSError as error:
                log.warning("vectors could not be read from %s: %s", path, error)

    def __len__(self) -> int:
        return len(self._numbers) + len(self._kept)

    def get(self, key: bytes) -> Vector | None:
        """The vector of a key, or None."""
        if (vector := self._shipped.get(key)) is not None:
            return vector
        number = self._numbers.get(key)
        if number is None or self._path is None:
            return self._kept.get(key)
        try:
            with self._path.open("rb", buffering=0) as file:
                file.seek(number * self._record.itemsize)
                data = file.read(self._record.itemsize)
        except OSError as error:
            log.warning("vectors could not be read from %s: %s", self._path, error)
            data = b""
        # Another process may have replaced the file.
        if data[:_KEY_BYTES] != key or len(data) != self._record.itemsize:
            del self._numbers[key]
            return None
        return np.frombuffer(data, dtype="<f4", offset=_KEY_BYTES)

    def add(self, vectors: Mapping[bytes, Vector]) -> None:
        """Add vectors. If the disk is full, the next start embeds them again."""
        if not vectors:
            return
        if self._path is None:
            self._kept.update(vectors)
            return
        data = self._records(vectors.items()).tobytes()
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            end = _append(self._path, data)
        except OSError as error:
            log.warning("vectors could not be written to %s: %s", self._path, error)
            self._kept.update(vectors)
            return
        first = end // self._record.itemsize - len(vectors)
        self._numbers.update({key: first + place for place, key in enumerate(vectors)})

    def keep_only(self, keys: Iterable[bytes]) -> None:
        """Remove all other vectors once the file is large; call it after the index is built."""
        if self._path is None or len(self) <= MOST_RECORDS:
            return
        found = ((key, self.get(key)) for key in dict.fromkeys(keys))
        wanted = [(key, vector) for key, vector in found if vector is not None]
        try:
            write_atomically(self._path, self._records(wanted).tobytes())
        except OSError as error:
            log.warning("vectors could not be written to %s: %s", self._path, error)
            return
        self._kept.clear()
        self._numbers = {key: number for number, (key, _) in enumerate(wanted)}

    def _scan(self, path: Path) -> None:
        """Find the records of the file, and remove an incomplete one at its end."""
        size = path.stat().st_size
        whole = size // self._record.itemsize
        if whole * self._record.itemsize != size:
            with path.open("r+b") as file:
                file.truncate(whole * self._record.itemsize)
        with path.open("rb") as file:
            for start in range(0, whole, _READ_AT_ONCE):
                records = np.fromfile(file, dtype=self._record, count=_READ_AT_ONCE)
                squares = np.einsum("ij,ij->i", records["vector"], records["vector"])
                # Vectors have unit length: anything else was not written here.
                for place in np.flatnonzero(np.abs(squares - 1.0) < 1e-3).tolist():
                    self._numbers[records["key"][place].tobytes()] = start + place

    def _records(self, vectors: Iterable[tuple[bytes, Vector]]) -> np.ndarray:
        items = list(vectors)
        records = np.zeros(len(items), dtype=self._record)
        for record, (key, vector) in zip(records, items, strict=True):
            record["key"] = np.void(key)
            record["vector"] = vector
        return records


def _append(path: Path, data: bytes) -> int:
    """Write at the end of a file that several processes may share; the size afterwards."""
    with path.open("ab", buffering=0) as file:
        written = file.write(data)
        end = file.tell()
        if written != len(data):
            file.truncate(end - written)
            raise OSError("the disk is full")
    return end
