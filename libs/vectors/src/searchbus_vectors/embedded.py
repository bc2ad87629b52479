"""The embedded engine: one qdrant-edge shard for each collection, in a folder of one process.

Up to `EXACT_UP_TO` vectors a search by meaning is exact. Above, an index beside the engine
(nearest.py) proposes the nearest ones, and the engine filters and scores them; a filter that hardly
any of them passes is searched exactly. One thread writes, a small pool of threads reads.

Nothing is written while the disk has less than `min_free_bytes` free: the engine writes through
mapped files, and on a full disk that ends the process.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import qdrant_edge as edge

from .embedded_types import INDEX_TYPES, by_meaning, by_words, ids_of, to_filter, to_point
from .filters import Filter
from .nearest import NearestIndex
from .options import StoreOptions
from .points import (
    DIMENSIONS,
    Candidate,
    Point,
    QueryVectors,
    Record,
    Sparse,
    only_of,
    records_of,
)
from .rebuilds import Rebuilds
from .shards import (
    TO_END,
    FreeSpace,
    OpenCollections,
    Shard,
    create_shard,
    drop_shard,
    engine_faults,
    free_bytes_of,
    lock_folder,
    open_shard,
    rename_shard,
)
from .store import CollectionDamagedError, FieldType, StorageFullError, VectorStore

log = logging.getLogger("searchbus.vectors")
T = TypeVar("T")

EXACT_UP_TO = 16_000
"""Vectors that the engine compares in the time of a search in the index, 2 ms. With a filter, it
compares those that pass, and needs no proposals."""
_SPARE = 1.5
"""Proposals for each candidate wanted: some do not pass the filter, some are out of order."""
_KNOWN_WORDS = 50_000
"""Words of queries of which the best score and the number of points are kept, some 5 MB each;
questions have most of theirs in common."""


class EmbeddedStore(VectorStore):
    """Collections as folders below `folder`. The constructor blocks; `open_store` does not.

    Args:
        min_free_bytes: no points are stored below that. Points are still deleted and marked down to
            a quarter of it, so that a document that was begun is finished; a collection is removed
            at any time.
        free_bytes: the free space of a folder's disk; tests pass their own.
    """

    engine = "embedded"

    def __init__(
        self,
        folder: Path,
        *,
        exact_up_to: int = EXACT_UP_TO,
        min_free_bytes: int = 0,
        free_bytes: Callable[[Path], int] = free_bytes_of,
    ) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        self._exact_up_to = exact_up_to
        self._space = FreeSpace(folder, min_free_bytes, free_bytes)
        self._lock = lock_folder(folder)
        self._rebuilds = Rebuilds(lambda of, step: self._run(self._writer, of.name, step, of))
        self._writer = ThreadPoolExecutor(1, thread_name_prefix="store-write")
        self._readers = ThreadPoolExecutor(4, thread_name_prefix="store-read")
        self._collections = OpenCollections(folder, self._space)

    @classmethod
    async def open(cls, place: str, options: StoreOptions) -> EmbeddedStore:
        """Lock the folder and open its collections, in a thread; takes the least free space."""
        return await asyncio.to_thread(cls, Path(place), min_free_bytes=options.min_free_bytes)

    @property
    def damaged(self) -> Mapping[str, str]:
        """Collections that are set aside, or of which something could not be read."""
        return self._collections.damaged

    async def ensure_collection(
        self, name: str, fields: Mapping[str, FieldType], *, dimensions: int = DIMENSIONS
    ) -> None:
        """Create the shard and its payload indexes."""
        self._collections.check(name)

        def work() -> None:
            shard = self._collections.shards.get(name)
            missing = fields.keys() - (shard.fields if shard is not None else set())
            if shard is None or missing:
                self._space.check()
            if shard is None:
                shard = create_shard(self._folder / name, dimensions)
            for field_name in sorted(missing):
                kind = INDEX_TYPES[fields[field_name]]
                shard.engine.update(edge.UpdateOperation.create_field_index(field_name, kind))
                shard.fields.add(field_name)
            self._collections.shards[name] = shard

        await self._write(name, work)

    async def collections(self) -> list[str]:
        """Names of the shards that are open."""
        return sorted(self._collections.shards)

    async def drop_collection(self, name: str) -> None:
        """Remove the folder, also of a damaged one. Searches that run read it to their end."""

        def work() -> None:
            # It is not closed, for those who search it: without a reader it ends by itself.
            self._collections.shards.pop(name, None)
            drop_shard(self._folder / name)
            self._collections.forget(name)

        self._rebuilds.forget(name)
        await self._write(name, work)

    async def rename_collection(self, name: str, to: str) -> None:
        """Rename the folder. Searches that run read the other one, as if it were deleted."""

        def work() -> None:
            shards, shard = self._collections.shards, self._collections.get(name)
            self._space.check()  # before anything is closed
            shard.engine.flush()
            self._save_index(shard)
            # Whoever reads it from now on finds that it is gone, not that a closed engine fails.
            del shards[name]
            shard.close()
            rename_shard(self._folder / name, to)
            self._collections.forget(name)
            self._collections.forget(to)
            shards[to] = open_shard(self._folder / to)

        try:
            await self._write(name, work)
        finally:  # not before: a search may start one while this waits for its turn
            self._rebuilds.forget(name)
            self._rebuilds.forget(to)

    async def upsert(self, collection: str, points: Sequence[Point]) -> None:
        """Store points; the engine's log is on disk when this returns."""

        def work(shard: Shard) -> None:
            self._space.check()
            shard.engine.update(edge.UpdateOperation.upsert_points([to_point(p) for p in points]))
            shard.of_words = {}
            shard.points.raise_to(shard.count())
            found = [(p.id, p.vectors.dense) for p in points if p.vectors is not None]
            shard.nearest.add([i for i, _ in found], [dense for _, dense in found])

        await self._change(collection, work)

    async def set_payload(self, collection: str, where: Filter, payload: dict[str, Any]) -> None:
        """Merge keys into payloads, in one operation of the engine."""
        operation = edge.UpdateOperation.set_payload_by_filter(to_filter(where), payload)

        def work(shard: Shard) -> None:
            self._space.check(TO_END)
            shard.engine.update(operation)

        await self._change(collection, work)

    async def delete(self, collection: str, where: Filter) -> None:
        """Delete every point that matches."""
        condition = to_filter(where)

        def work(shard: Shard) -> None:
            gone = ids_of(shard.engine, condition)
            if gone:
                self._space.check(TO_END)
                shard.points.lower_to(shard.count() - len(gone))
                shard.engine.update(edge.UpdateOperation.delete_points_by_filter(condition))
                shard.of_words = {}
                shard.nearest.remove(gone)

        await self._change(collection, work)

    async def _get(self, collection: str, ids: Sequence[str]) -> list[Record]:
        shard = await self._shard(collection)
        return await self._read(
            shard, lambda: records_of(shard.engine.retrieve(list(ids), True, False))
        )

    async def _scroll(
        self, collection: str, where: Filter | None, limit: int, start_id: str | None, *,
        vectors: bool,
    ) -> tuple[Sequence[Any], Any]:  # fmt: skip
        shard = await self._shard(collection)
        request = edge.ScrollRequest(
            offset=start_id, limit=limit, filter=to_filter(where) if where else None,
            with_payload=True, with_vector=vectors,
        )  # fmt: skip
        return await self._read(shard, lambda: shard.engine.scroll(request))

    async def count(self, collection: str, where: Filter | None = None) -> int:
        """The number of points that match."""
        shard = await self._shard(collection)
        request = edge.CountRequest(exact=True, filter=to_filter(where) if where else None)
        return await self._read(shard, lambda: shard.engine.count(request))

    async def close(self) -> None:
        """Flush and close every shard, and release the folder.

        What cannot be flushed on a full disk is in the engine's log, and read from it at the start.
        """
        self._rebuilds.cancel()
        for name, shard in self._collections.shards.items():
            try:
                await self._write(name, partial(self._close, shard))
            except (CollectionDamagedError, StorageFullError, OSError) as error:
                log.warning("%s was closed without its index: %s", name, error)
        self._collections.shards.clear()
        for pool in (self._writer, self._readers):
            pool.shutdown(wait=False, cancel_futures=True)
        os.close(self._lock)

    async def _candidates(
        self, collection: str, query: QueryVectors, where: Filter | None, limit: int
    ) -> tuple[list[Candidate], list[Candidate], list[Candidate]]:
        shard = await self._shard(collection)
        engine, index = shard.engine, self._index(shard)
        condition = to_filter(where) if where else None

        # In one turn of a thread: each turn costs some 80 µs of CPU.
        def work() -> tuple[list[Candidate], list[Candidate], list[Candidate]]:
            dense: list[Candidate] = []
            if index is not None:
                near = index.search(query.dense, round(limit * _SPARE))
                dense = by_meaning(engine, query, limit, condition, near)
            if len(dense) < limit:  # no index, or few of the nearest pass the filter
                dense = by_meaning(engine, query, limit, condition)
            sparse = by_words(engine, query.sparse, limit, condition)
            ids = only_of(sparse, dense)
            others = by_meaning(engine, query, len(ids), None, ids) if ids else []
            return dense, sparse, others

        return await self._read(shard, work)

    async def best_by_word(self, collection: str, words: Sparse) -> list[float]:
        """One search by words for each that is not known since the last write."""

        def best(engine: edge.EdgeShard, index: int) -> float:
            found = by_words(engine, Sparse([index], [1.0]), 1, None)
            return found[0].score if found else 0.0

        return await self._of_words(collection, words.indices, "best", best)

    async def count_by_word(
        self, collection: str, indices: Sequence[int], *, most: int
    ) -> list[int]:
        """One search by words for each that is not known since the last write."""

        def count(engine: edge.EdgeShard, index: int) -> int:
            return len(by_words(engine, Sparse([index], [1.0]), most, None))

        return await self._of_words(collection, indices, most, count)

    async def _of_words(
        self, collection: str, indices: Sequence[int], name: str | int,
        read: Callable[[edge.EdgeShard, int], T],
    ) -> list[T]:  # fmt: skip
        shard = await self._shard(collection)
        kept = shard.of_words  # before the search: a write meanwhile leaves it behind
        found = kept.get(name, {})
        if all(index in found for index in indices):
            return [found[index] for index in indices]

        def work() -> list[T]:
            known = kept.setdefault(name, {})
            if len(known) > _KNOWN_WORDS:
                known = kept[name] = {}
            return [
                known[i] if i in known else known.setdefault(i, read(shard.engine, i))
                for i in indices
            ]

        return await self._read(shard, work)

    def _close(self, shard: Shard) -> None:
        shard.engine.flush()
        shard.close()
        self._save_index(shard)

    def _save_index(self, shard: Shard) -> None:
        if shard.complete:
            self._space.check()
            shard.nearest.save(self._folder / shard.name)

    async def _shard(self, name: str) -> Shard:
        if self._collections.waits_for_space(name):
            await self._write(name, partial(self._collections.open_again, name))
        return self._collections.get(name)

    async def _write(self, collection: str, work: Callable[[], T]) -> T:
        return await self._run(self._writer, collection, work)

    async def _change(self, collection: str, work: Callable[[Shard], T]) -> T:
        """Write into the collection that has the name when its turn comes."""
        await self._shard(collection)
        result = await self._write(collection, lambda: work(self._collections.get(collection)))
        shard = self._collections.shards.get(collection)
        if shard is not None and shard.nearest.worn:
            self._rebuilds.start(shard)
        return result

    async def _read(self, shard: Shard, work: Callable[[], T]) -> T:
        return await self._run(self._readers, shard.name, work, shard)

    async def _run(
        self, threads: ThreadPoolExecutor, collection: str, work: Callable[[], T],
        of: Shard | None = None,
    ) -> T:  # fmt: skip
        def guarded() -> T:
            try:
                with engine_faults(collection):
                    return work()
            except CollectionDamagedError as error:
                self._collections.mark_damaged(error, of)
                raise

        return await asyncio.get_running_loop().run_in_executor(threads, guarded)

    def _index(self, shard: Shard) -> NearestIndex | None:
        """The index, where it is complete and worth its approximation."""
        if not shard.complete:
            self._rebuilds.start(shard)
            return None
        return shard.nearest if len(shard.nearest) > self._exact_up_to else None
