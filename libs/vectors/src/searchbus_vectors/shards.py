"""The folders of the embedded engine: how a collection is made, opened and removed.

    .owner            locked by the process that has the store open
    .new-<name>       a mark while <name> is being made; after a crash both are removed
    .dropped-<name>   a collection that is being deleted; after a crash it is removed
    <name>            a collection: files of the engine, and nearest.* and points.json of ours

A folder without a configuration is therefore a damaged collection, never an unfinished one.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import qdrant_edge as edge

from .embedded_types import DENSE, SPARSE
from .nearest import NearestIndex
from .point_count import PointCount
from .store import CollectionDamaged, StorageFull, StoreLocked
from .vectors import DIMENSIONS

__all__ = [
    "Shard",
    "create_shard",
    "drop_shard",
    "engine_faults",
    "find_shards",
    "lock_folder",
    "open_shard",
]

_CONFIG = "edge_config.json"
_NEW, _DROPPED = ".new-", ".dropped-"
_NO_SPACE = "No space left on device"
_ALL = edge.CountRequest(exact=True)


@dataclass(slots=True)
class Shard:
    """An open collection.

    Attributes:
        fields: names with a payload index.
        nearest: the index of its vectors.
        complete: whether `nearest` has every vector.
        of_words: what was read of its words: name → word id → value; a write replaces it.
    """

    name: str
    engine: edge.EdgeShard
    points: PointCount
    nearest: NearestIndex
    fields: set[str] = field(default_factory=set)
    of_words: dict[str | int, dict[int, Any]] = field(default_factory=dict)
    complete: bool = False

    def count(self) -> int:
        """The number of points."""
        return self.engine.count(_ALL)


@contextmanager
def engine_faults(collection: str) -> Iterator[None]:
    """Raise what the engine raises by its own failures as typed errors.

    Raises:
        StorageFull: it could not write.
        CollectionDamaged: files are damaged.
    """
    try:
        yield
    except OSError as error:
        if error.errno is not None and _NO_SPACE in str(error):
            raise StorageFull(str(error)) from error
        raise
    except BaseException as error:
        # The binding has no classes: failures are Exception, panics derive from BaseException.
        is_panic = type(error).__name__ == "PanicException"
        if not is_panic and not (type(error) is Exception and "Service runtime" in str(error)):
            raise
        if _NO_SPACE in str(error):
            raise StorageFull(str(error)) from error
        raise CollectionDamaged(collection, f"the engine reports: {_short(error)}") from error


def lock_folder(folder: Path) -> int:
    """Lock the folder for this process; returns the descriptor that holds the lock.

    Raises:
        StoreLocked: another process has it.
    """
    descriptor = os.open(folder / ".owner", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        owner = os.read(descriptor, 200).decode(errors="replace") or "unknown"
        os.close(descriptor)
        raise StoreLocked(
            f"The documents in {folder} are open in another process ({owner}). "
            "Stop it, or use another data folder."
        ) from None
    os.ftruncate(descriptor, 0)
    os.pwrite(descriptor, json.dumps({"pid": os.getpid()}).encode(), 0)
    return descriptor


def find_shards(folder: Path) -> list[str]:
    """Names of the collections in a folder; what a crash left unfinished is removed."""
    for mark in folder.glob(f"{_NEW}*"):
        shutil.rmtree(folder / mark.name.removeprefix(_NEW), ignore_errors=True)
        mark.unlink()
    for dropped in folder.glob(f"{_DROPPED}*"):
        shutil.rmtree(dropped, ignore_errors=True)
    return sorted(
        path.name
        for path in folder.iterdir()
        if path.is_dir() and not path.name.startswith(".") and any(path.iterdir())
    )


def open_shard(path: Path) -> Shard:
    """Open a collection.

    Raises:
        CollectionDamaged: a file is damaged or missing, or points are missing.
        StorageFull: the engine needs to write for that.
    """
    if not (path / _CONFIG).is_file():
        raise CollectionDamaged(path.name, f"{_CONFIG} is missing")
    with engine_faults(path.name):
        engine = edge.EdgeShard.load(str(path))
        nearest = NearestIndex(_dimensions(path))
        fields = set(engine.info().payload_schema)
        shard = Shard(path.name, engine, PointCount(path), nearest, fields)
        found = shard.count()
        if found < shard.points.least:
            engine.close()
            raise CollectionDamaged(path.name, f"it holds {found} of {shard.points.least} points")
    shard.points.raise_to(found)
    index = NearestIndex.load(path, shard.nearest.dimensions)
    if index is not None:
        shard.nearest, shard.complete = index, True
    return shard


def create_shard(path: Path, dimensions: int = DIMENSIONS) -> Shard:
    """Make a collection; after a crash it is there completely or not at all.

    Args:
        dimensions: length of its dense vectors.

    Raises:
        StorageFull: the disk is full.
        CollectionDamaged: the engine failed.
    """
    config = edge.EdgeConfig(
        vectors={DENSE: edge.EdgeVectorParams(dimensions, edge.Distance.Cosine)},
        sparse_vectors={SPARSE: edge.EdgeSparseVectorParams(modifier=edge.Modifier.Idf)},
    )
    mark = path.with_name(f"{_NEW}{path.name}")
    with engine_faults(path.name):
        mark.touch()
        engine = edge.EdgeShard.create(str(path), config)
        engine.flush()
        mark.unlink()
    nearest = NearestIndex(dimensions)
    return Shard(path.name, engine, PointCount(path), nearest=nearest, complete=True)


def drop_shard(path: Path) -> None:
    """Remove a closed or damaged collection."""
    if path.is_dir():
        # Renaming is atomic: a crash during the removal leaves no incomplete collection.
        dropped = path.with_name(f"{_DROPPED}{path.name}")
        shutil.rmtree(dropped, ignore_errors=True)
        path.rename(dropped)
        shutil.rmtree(dropped, ignore_errors=True)


def _dimensions(path: Path) -> int:
    config = json.loads((path / _CONFIG).read_text())
    return int(config["vectors"][DENSE]["size"])


def _short(error: BaseException) -> str:
    text = " ".join(str(error).split()).removeprefix("Service runtime error: ")
    return text if len(text) <= 300 else f"{text[:297]}..."
