"""The embedded engine: one qdrant-edge shard for each collection, in a folder of one process.

Up to `EXACT_UP_TO` vectors a search by meaning is exact. Above, an index beside the engine
(nearest.py) proposes the nearest ones, and the engine filters and scores them; a filter that hardly
any of them passes is searched exactly. One thread writes, a small pool of threads reads.
"""

from __future__ import annotations

import asyncio
import fcntl
import json
import logging
import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar, cast

import qdrant_edge as edge

from .embedded_types import DENSE, INDEX_TYPES, SPARSE, to_filter, to_point
from .filters import Filter
from .nearest import NearestIndex
from .store import (
    Candidate,
    CollectionMissing,
    FieldType,
    Page,
    Point,
    Record,
    StoreLocked,
    VectorStore,
)
from .vectors import DIMENSIONS, QueryVectors

__all__ = ["EmbeddedStore"]

log = logging.getLogger("searchbus.vectors")
T = TypeVar("T")

EXACT_UP_TO = 5_000
"""Vectors that the engine compares in under a millisecond."""
_SPARE = 1.5
"""Proposals for each candidate wanted: some do not pass the filter, some are out of order."""
_READ_AT_ONCE = 250


class EmbeddedStore(VectorStore):
    """Collections as folders below `folder`. The constructor blocks; `open_store` does not."""

    engine = "embedded"

    def __init__(self, folder: Path, *, exact_up_to: int = EXACT_UP_TO) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        self._exact_up_to = exact_up_to
        self._lock = _lock(folder)
        self._shards: dict[str, edge.EdgeShard] = {}
        self._fields: dict[str, set[str]] = {}
        self._nearest: dict[str, NearestIndex] = {}
        self._complete: set[str] = set()
        self._rebuilding: dict[str, asyncio.Task[None]] = {}
        self._writer = ThreadPoolExecutor(1, thread_name_prefix="store-write")
        self._readers = ThreadPoolExecutor(4, thread_name_prefix="store-read")
        for path in sorted(folder.iterdir()):
            if path.name.startswith(".dropped-"):
                shutil.rmtree(path, ignore_errors=True)
            elif (path / "edge_config.json").is_file():
                self._shards[path.name] = edge.EdgeShard.load(str(path))
                self._fields[path.name] = set(self._shards[path.name].info().payload_schema)
                index = NearestIndex.load(path)
                if index is not None:
                    self._complete.add(path.name)
                self._nearest[path.name] = index or NearestIndex()

    async def ensure_collection(self, name: str, fields: Mapping[str, FieldType]) -> None:
        """Create the shard and its payload indexes."""

        def work() -> None:
            shard = self._shards.get(name)
            if shard is None:
                config = edge.EdgeConfig(
                    vectors={DENSE: edge.EdgeVectorParams(DIMENSIONS, edge.Distance.Cosine)},
                    sparse_vectors={
                        SPARSE: edge.EdgeSparseVectorParams(modifier=edge.Modifier.Idf)
                    },
                )
                path = self._folder / name
                shutil.rmtree(path, ignore_errors=True)  # a crash may have left an incomplete one
                shard = edge.EdgeShard.create(str(path), config)
                shard.flush()
                self._fields[name] = set()
                self._nearest[name] = NearestIndex()
                self._complete.add(name)
            for field_name, kind in fields.items():
                if field_name not in self._fields[name]:
                    shard.update(
                        edge.UpdateOperation.create_field_index(field_name, INDEX_TYPES[kind])
                    )
                    self._fields[name].add(field_name)
            self._shards[name] = shard

        await self._write(work)

    async def collections(self) -> list[str]:
        """Names of the shards."""
        return sorted(self._shards)

    async def drop_collection(self, name: str) -> None:
        """Close the shard and remove its folder."""

        def work() -> None:
            shard = self._shards.pop(name, None)
            self._nearest.pop(name, None)
            self._complete.discard(name)
            if shard is None:
                return
            shard.close()
            # Renaming is atomic: a crash during the removal leaves no incomplete collection.
            dropped = self._folder / f".dropped-{name}"
            (self._folder / name).rename(dropped)
            shutil.rmtree(dropped, ignore_errors=True)

        await self._write(work)

    async def upsert(self, collection: str, points: Sequence[Point]) -> None:
        """Store points; the engine's log is on disk when this returns."""
        shard = self._shard(collection)

        def work() -> None:
            shard.update(edge.UpdateOperation.upsert_points([to_point(p) for p in points]))
            found = [(p.id, p.vectors.dense) for p in points if p.vectors is not None]
            self._nearest[collection].add([i for i, _ in found], [dense for _, dense in found])

        await self._write(work)

    async def set_payload(self, collection: str, where: Filter, payload: dict[str, Any]) -> None:
        """Merge keys into payloads, in one operation of the engine."""
        shard = self._shard(collection)
        operation = edge.UpdateOperation.set_payload_by_filter(to_filter(where), payload)
        await self._write(lambda: shard.update(operation))

    async def delete(self, collection: str, where: Filter) -> None:
        """Delete every point that matches."""
        shard = self._shard(collection)
        condition = to_filter(where)

        def work() -> None:
            gone = _ids(shard, condition)
            if gone:
                shard.update(edge.UpdateOperation.delete_points_by_filter(condition))
                self._nearest[collection].remove(gone)

        await self._write(work)

    async def get(self, collection: str, ids: Sequence[str]) -> list[Record]:
        """The points with these ids, in their order."""
        shard = self._shard(collection)
        found = await self._read(lambda: shard.retrieve(list(ids), True, False))
        by_id = {str(r.id): Record(str(r.id), r.payload or {}) for r in found}
        return [by_id[i] for i in ids if i in by_id]

    async def scroll(
        self, collection: str, *, where: Filter | None = None, limit: int = 100,
        start_id: str | None = None,
    ) -> Page:  # fmt: skip
        """Points in order of id."""
        shard = self._shard(collection)
        request = edge.ScrollRequest(
            offset=start_id, limit=limit, filter=to_filter(where) if where else None,
            with_payload=True, with_vector=False,
        )  # fmt: skip
        records, next_id = await self._read(lambda: shard.scroll(request))
        return Page(
            [Record(str(r.id), r.payload or {}) for r in records],
            None if next_id is None else str(next_id),
        )

    async def count(self, collection: str, where: Filter | None = None) -> int:
        """The number of points that match."""
        shard = self._shard(collection)
        request = edge.CountRequest(exact=True, filter=to_filter(where) if where else None)
        return await self._read(lambda: shard.count(request))

    async def close(self) -> None:
        """Flush and close every shard, and release the folder."""
        for task in self._rebuilding.values():
            task.cancel()

        def work() -> None:
            for name, shard in self._shards.items():
                shard.flush()
                shard.close()
                if name in self._complete:
                    self._nearest[name].save(self._folder / name)
            self._shards.clear()

        await self._write(work)
        for pool in (self._writer, self._readers):
            pool.shutdown(wait=False, cancel_futures=True)
        os.close(self._lock)

    async def _candidates(
        self, collection: str, query: QueryVectors, where: Filter | None, limit: int
    ) -> tuple[list[Candidate], list[Candidate]]:
        shard = self._shard(collection)
        index = self._index(collection)
        condition = to_filter(where) if where else None

        def work() -> tuple[list[Candidate], list[Candidate]]:
            dense: list[Candidate] = []
            if index is not None:
                near = index.search(query.dense, round(limit * _SPARE))
                dense = _by_meaning(shard, query, limit, condition, near)
            if len(dense) < limit:  # no index, or few of the nearest pass the filter
                dense = _by_meaning(shard, query, limit, condition)
            return dense, _by_words(shard, query, limit, condition)

        return await self._read(work)

    async def _cosines(
        self, collection: str, query: QueryVectors, ids: Sequence[str]
    ) -> dict[str, float]:
        shard = self._shard(collection)
        found = await self._read(lambda: _by_meaning(shard, query, len(ids), None, ids))
        return {candidate.id: candidate.score for candidate in found}

    def _shard(self, name: str) -> edge.EdgeShard:
        shard = self._shards.get(name)
        if shard is None:
            raise CollectionMissing(name)
        return shard

    async def _write(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._writer, work)

    async def _read(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._readers, work)

    def _index(self, name: str) -> NearestIndex | None:
        """The index, where it is complete and worth its approximation."""
        index = self._nearest[name]
        if name not in self._complete:
            if name not in self._rebuilding:
                task = asyncio.get_running_loop().create_task(self._rebuild(name, index))
                self._rebuilding[name] = task
            return None
        return index if len(index) > self._exact_up_to else None

    async def _rebuild(self, name: str, index: NearestIndex) -> None:
        """Read every vector again: after a crash, or in a store of an earlier release.

        In small steps of the writing thread, so that writes take their turn; searches stay exact.
        """
        shard = self._shard(name)
        start_id: Any = None

        def step() -> Any:
            request = edge.ScrollRequest(
                offset=start_id, limit=_READ_AT_ONCE, with_payload=False, with_vector=[DENSE]
            )
            records, following = shard.scroll(request)
            found = [(str(r.id), cast(dict[str, list[float]], r.vector or {})) for r in records]
            # Some points have no vector; others were written meanwhile.
            new = [(i, vector[DENSE]) for i, vector in found if DENSE in vector and i not in index]
            index.add([i for i, _ in new], [dense for _, dense in new])
            return following

        try:
            while (start_id := await self._write(step)) is not None:
                pass
        except Exception:
            log.exception("the index of %s could not be built; its searches stay exact", name)
            return
        self._complete.add(name)
        log.info("the index of %s is built again: %d vectors", name, len(index))


def _by_meaning(
    shard: edge.EdgeShard, query: QueryVectors, limit: int, condition: edge.Filter | None,
    among: Sequence[str] | None = None,
) -> list[Candidate]:  # fmt: skip
    """The points nearest to the query, exactly; of those ids, where they are given."""
    must: list[Any] = [condition] if condition is not None else []
    if among is not None:
        must.append(edge.HasIdCondition(set(among)))
    request = edge.QueryRequest(
        limit=limit, query=edge.Query.Nearest(query.dense, using=DENSE),
        filter=edge.Filter(must=must) if must else None, with_payload=False,
        params=edge.SearchParams(exact=True),
    )  # fmt: skip
    return [Candidate(str(p.id), p.score) for p in shard.query(request)]


def _by_words(
    shard: edge.EdgeShard, query: QueryVectors, limit: int, condition: edge.Filter | None
) -> list[Candidate]:
    if not query.sparse.indices:  # a query of stopwords alone has no terms
        return []
    terms = edge.SparseVector(query.sparse.indices, query.sparse.values)
    request = edge.QueryRequest(
        limit=limit, query=edge.Query.Nearest(terms, using=SPARSE), filter=condition,
        with_payload=False,
    )  # fmt: skip
    return [Candidate(str(p.id), p.score) for p in shard.query(request)]


def _ids(shard: edge.EdgeShard, condition: edge.Filter) -> list[str]:
    """Ids of every point that matches."""
    found: list[str] = []
    start_id: Any = None
    while True:
        request = edge.ScrollRequest(
            offset=start_id, limit=1000, filter=condition, with_payload=False, with_vector=False
        )
        records, start_id = shard.scroll(request)
        found += [str(record.id) for record in records]
        if start_id is None:
            return found


def _lock(folder: Path) -> int:
    """Lock the folder for this process; returns the descriptor that holds the lock."""
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
