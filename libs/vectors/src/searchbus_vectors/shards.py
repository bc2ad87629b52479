"""The folders of the embedded engine: how a collection is made, opened, set aside and removed.

    .owner            locked by the process that has the store open
    .new-<name>       a mark while <name> is being made; after a crash both are removed
    .dropped-<name>   a collection that is being deleted; after a crash it is removed
    .to-<to>,<name>   a mark while <name> takes the place of <to>; after a crash that is ended
    <name>            a collection: files of the engine, and nearest.* and points.json of ours

A folder without a configuration is therefore a damaged collection, never an unfinished one.
"""

from __future__ import annotations

import fcntl
import json
import logging
import os
import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import qdrant_edge as edge

from .nearest import NearestIndex
from .points import DENSE, DIMENSIONS, SPARSE
from .store import (
    CollectionDamagedError,
    CollectionMissingError,
    StorageFullError,
    StoreLockedError,
)


def free_bytes_of(folder: Path) -> int:
    """The free space of a folder's disk."""
    return shutil.disk_usage(folder).free


TO_END = 0.25
"""What ends a document that was begun, or removes one, may go down to this share."""


class FreeSpace:
    """Checks before a write that so many bytes of the folder's disk are free."""

    def __init__(
        self, folder: Path, min_free_bytes: int, free_bytes: Callable[[Path], int]
    ) -> None:
        self._folder = folder
        self._min_free_bytes = min_free_bytes
        self._free_bytes = free_bytes

    def check(self, share: float = 1.0) -> None:
        """Raise StorageFullError where the disk has less than this share of `min_free_bytes`."""
        free = self._free_bytes(self._folder)
        if free < share * self._min_free_bytes:
            raise StorageFullError(
                f"{free / 2**20:.0f} MiB are free in {self._folder}; "
                f"{self._min_free_bytes / 2**20:.0f} MiB are needed to write"
            )


log = logging.getLogger("searchbus.vectors")
_POINTS_FILE = "points.json"


class PointCount:
    """The number for one collection, in its folder."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / _POINTS_FILE
        self.least = self._read()
        """0 where nothing was recorded."""

    def raise_to(self, count: int) -> None:
        """Record that there are more points. Where that fails, the lower number stays true."""
        if count <= self.least:
            return
        try:
            self._write(count, durable=False)
        except OSError as error:
            log.warning("%s could not be written: %s", self._path, error.strerror)

    def lower_to(self, count: int) -> None:
        """Record that points may be missing from now on; on disk when this returns. Raises OSError:
        then nothing may be deleted."""
        if count < self.least:
            self._write(count, durable=True)

    def _read(self) -> int:
        try:
            return int(json.loads(self._path.read_bytes())["points"])
        except (OSError, ValueError, KeyError, TypeError):
            return 0

    def _write(self, count: int, *, durable: bool) -> None:
        draft = self._path.with_name(f".{_POINTS_FILE}.tmp")
        with draft.open("w") as file:
            json.dump({"points": count}, file)
            if durable:
                file.flush()
                os.fsync(file.fileno())
        draft.replace(self._path)
        self.least = count


_CONFIG = "edge_config.json"
_NEW, _DROPPED, _TO = ".new-", ".dropped-", ".to-"
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

    def close(self) -> None:
        """Close the engine once no thread reads it; blocks until then."""
        while True:
            try:
                return self.engine.close()
            except RuntimeError:  # the binding says so where a thread is inside of it
                time.sleep(0.001)


@contextmanager
def engine_faults(collection: str) -> Iterator[None]:
    """Raise what the engine raises by its own failures as typed errors.

    Raises:
        StorageFullError: it could not write.
        CollectionDamagedError: files are damaged.
    """
    try:
        yield
    except OSError as error:
        if error.errno is not None and _NO_SPACE in str(error):
            raise StorageFullError(str(error)) from error
        raise
    except BaseException as error:
        # The binding has no classes: failures are Exception, panics derive from BaseException.
        is_panic = type(error).__name__ == "PanicException"
        if not is_panic and not (type(error) is Exception and "Service runtime" in str(error)):
            raise
        if _NO_SPACE in str(error):
            raise StorageFullError(str(error)) from error
        raise CollectionDamagedError(collection, f"the engine reports: {_short(error)}") from error


def lock_folder(folder: Path) -> int:
    """Lock the folder for this process; returns the descriptor that holds the lock.

    Raises:
        StoreLockedError: another process has it.
    """
    descriptor = os.open(folder / ".owner", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        owner = os.read(descriptor, 200).decode(errors="replace") or "unknown"
        os.close(descriptor)
        raise StoreLockedError(
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
    for mark in folder.glob(f"{_TO}*"):
        _end_rename(mark)
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
        CollectionDamagedError: a file is damaged or missing, or points are missing.
        StorageFullError: the engine needs to write for that.
    """
    if not (path / _CONFIG).is_file():
        raise CollectionDamagedError(path.name, f"{_CONFIG} is missing")
    with engine_faults(path.name):
        engine = edge.EdgeShard.load(str(path))
        config = json.loads((path / _CONFIG).read_text())
        nearest = NearestIndex(config["vectors"][DENSE]["size"])
        fields = set(engine.info().payload_schema)
        shard = Shard(path.name, engine, PointCount(path), nearest, fields)
        found = shard.count()
        if found < shard.points.least:
            engine.close()
            raise CollectionDamagedError(
                path.name, f"it holds {found} of {shard.points.least} points"
            )
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
        StorageFullError: the disk is full.
        CollectionDamagedError: the engine failed.
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
    """Remove a collection; whoever reads it still reads the files that it has open."""
    if path.is_dir():
        # Renaming is atomic: a crash during the removal leaves no incomplete collection.
        dropped = path.with_name(f"{_DROPPED}{path.name}")
        shutil.rmtree(dropped, ignore_errors=True)
        path.rename(dropped)
        shutil.rmtree(dropped, ignore_errors=True)


def rename_shard(path: Path, to: str) -> None:
    """Put a closed collection in the place of another one beside it, also across a crash.

    Whoever reads the other one still reads the files that it has open.
    """
    mark = path.with_name(f"{_TO}{to},{path.name}")
    mark.touch()
    _end_rename(mark)


def _end_rename(mark: Path) -> None:
    to, _, name = mark.name.removeprefix(_TO).partition(",")
    source = mark.with_name(name)
    if source.is_dir():
        drop_shard(mark.with_name(to))
        source.rename(mark.with_name(to))
    mark.unlink()


def _short(error: BaseException) -> str:
    text = " ".join(str(error).split()).removeprefix("Service runtime error: ")
    return text if len(text) <= 300 else f"{text[:297]}..."


class OpenCollections:
    """Opens every collection below `folder`; that blocks.

    Attributes:
        shards: those that are open, by name.
    """

    def __init__(self, folder: Path, space: FreeSpace) -> None:
        self.shards: dict[str, Shard] = {}
        self._folder = folder
        self._space = space
        self._damaged: dict[str, str] = {}
        self._without_space: set[str] = set()
        for name in find_shards(folder):
            self._open(name)

    @property
    def damaged(self) -> Mapping[str, str]:
        """What is wrong with collections that are set aside, or cannot be read in part; by name."""
        full = {name: "the disk is too full to open it" for name in self._without_space}
        return dict(sorted((self._damaged | full).items()))

    def waits_for_space(self, name: str) -> bool:
        """Whether a full disk kept a collection from being opened."""
        return name in self._without_space

    def open_again(self, name: str) -> None:
        """Open a collection that waits for space; raises StorageFullError without any yet."""
        self._space.check()
        if name in self._without_space:
            self._without_space.discard(name)
            self._open(name)

    def get(self, name: str) -> Shard:
        """An open collection; raises CollectionDamagedError or CollectionMissingError."""
        shard = self.shards.get(name)
        if shard is None:
            self.check(name)
            raise CollectionMissingError(name)
        return shard

    def check(self, name: str) -> None:
        """Raise CollectionDamagedError where a collection is damaged and not open."""
        if name in self._damaged and name not in self.shards:
            raise CollectionDamagedError(name, self._damaged[name])

    def mark_damaged(self, error: CollectionDamagedError, of: Shard | None = None) -> None:
        """Note that something of a collection cannot be read; the first reason stays.

        Raises CollectionMissingError where `of`, which was read, was deleted or replaced meanwhile.
        """
        if of is not None and self.shards.get(of.name) is not of:
            raise CollectionMissingError(of.name) from error
        if error.collection not in self._damaged:
            log.error("%s", error)
        self._damaged.setdefault(error.collection, error.reason)

    def forget(self, name: str) -> None:
        """Remove a collection from those that are set aside: its folder is gone."""
        self._damaged.pop(name, None)
        self._without_space.discard(name)

    def _open(self, name: str) -> None:
        try:
            self.shards[name] = open_shard(self._folder / name)
        except CollectionDamagedError as error:
            self._damaged[name] = error.reason
            log.error("%s; it is set aside", error)
        except StorageFullError as error:
            self._without_space.add(name)
            log.error("collection %s is set aside until there is space: %s", name, error)
