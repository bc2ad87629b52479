"""Copies of a collection: read document by document while it is written, stored without embedding.

A document is read between two looks at its record: where both have the same revision, all its
points are of that revision, since they are deleted only after the record has another one.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from searchbus_contracts import ErrorCode, Fault
from searchbus_contracts.ingest import (
    CollectionCopy,
    ExportReply,
    PointCopy,
)
from searchbus_vectors import (
    DIMENSIONS,
    AllOf,
    Equals,
    Point,
    Record,
    Sparse,
    Vectors,
    VectorStore,
)

from .collections import Schema, Schemas, page_start, staged, typed
from .records import is_live_chunk, is_record, of_document, store_fields

_RECORDS = 64
_POINTS_AT_ONCE = 64
_REPLY_BYTES = 6 * 1024 * 1024
"""About the size of a reply: the bus admits ten times as much."""
_POINT_BYTES = 4_096
"""A passage with its vectors, in JSON, without its text."""
_SEPARATOR = "|"


@dataclass(slots=True)
class _Reading:
    """The documents of one reply, as they are read."""

    points: list[Point] = field(default_factory=list)
    size_bytes: int = 0
    documents: int = 0
    unfinished: int = 0
    restarted: bool = False

    def add(self, points: list[Point]) -> None:
        self.points += points
        self.size_bytes += sum(_POINT_BYTES + len(p.payload.get("text") or "") for p in points)

    @property
    def is_full(self) -> bool:
        return self.size_bytes >= _REPLY_BYTES


class Copies:
    """Reads and stores copies of the collections of one store."""

    def __init__(self, store: VectorStore, schemas: Schemas) -> None:
        self._store = store
        self._schemas = schemas

    async def read(self, collection: str, cursor: str | None) -> ExportReply:
        """The documents from a cursor on; raises Fault(not_found, unavailable,
        invalid_argument)."""
        record_id, _, inner = (cursor or "").partition(_SEPARATOR)
        schema = await self._schemas.get(collection)
        reading = _Reading()
        with typed(collection):
            page = await self._store.scroll(
                collection,
                where=is_record,
                limit=_RECORDS,
                start_id=page_start(record_id or None),
            )
            if inner and (not page.records or page.records[0].id != record_id):
                reading.restarted, inner = True, ""  # it was deleted
            next_cursor = page.next_id
            for number, record in enumerate(page.records):
                if reading.is_full:
                    next_cursor = record.id
                    break
                rest = await self._read_document(
                    collection, record, reading, inner if number == 0 else ""
                )
                if rest is not None:
                    next_cursor = _SEPARATOR.join((record.id, rest))
                    break
            copy = CollectionCopy(
                fields=schema.fields, model=schema.model, facts=schema.facts,
                dimensions=await self._dimensions(collection),
            )  # fmt: skip
        return ExportReply(
            collection=copy,
            points=tuple(map(_copied, reading.points)),
            documents=reading.documents,
            next_cursor=next_cursor,
            unfinished=reading.unfinished,
            restarted=reading.restarted,
        )

    async def store(self, collection: str, copy: CollectionCopy, points: list[Point]) -> None:
        """Store points beside a collection; raises Fault(storage_full, unavailable)."""
        name = staged(collection)
        if await self._schemas.find(name) is None:
            with typed(name):
                await self._store.ensure_collection(
                    name, store_fields(copy.fields, copy.facts), dimensions=copy.dimensions
                )
            await self._schemas.write(name, Schema(copy.fields, copy.model, copy.facts))
        with typed(name):
            await self._store.upsert(name, points)

    async def _read_document(
        self, collection: str, record: Record, reading: _Reading, inner: str
    ) -> str | None:
        """Read a document, or go on at `inner`; returns where to go on, None where it is read."""
        wanted, _, start = inner.partition(_SEPARATOR)
        while True:
            revision = str(record.payload["revision"])
            if inner and wanted != revision:
                reading.restarted, wanted, start = True, revision, ""
            before, size_bytes = len(reading.points), reading.size_bytes
            own = AllOf((of_document(record.payload["document_id"]), Equals("revision", revision)))
            start_id = page_start(start or None)
            while True:
                page = await self._store.scroll_points(
                    collection, where=own, limit=_POINTS_AT_ONCE, start_id=start_id
                )
                reading.add([_live(point) for point in page.points])
                start_id = page.next_id
                if start_id is None or reading.is_full:
                    break
            # Only what was read between two equal records is complete.
            now = await self._store.get(collection, [record.id])
            if now and now[0].payload["revision"] == revision:
                if start_id is None:
                    reading.documents += 1
                    return None
                reading.unfinished = len(reading.points) - before
                return _SEPARATOR.join((revision, start_id))
            del reading.points[before:]
            reading.size_bytes = size_bytes
            if not now:
                reading.restarted = reading.restarted or bool(inner)
                return None
            record = now[0]

    async def _dimensions(self, collection: str) -> int:
        page = await self._store.scroll_points(collection, where=is_live_chunk, limit=1)
        found = [len(p.vectors.dense) for p in page.points if p.vectors is not None]
        return found[0] if found else DIMENSIONS


def _live(point: Point) -> Point:
    """The point as it is once its document's commit has ended."""
    return Point(point.id, point.payload | {"live": True}, point.vectors)


def _copied(point: Point) -> PointCopy:
    if point.vectors is None:
        return PointCopy(id=point.id, payload=point.payload)
    sparse = point.vectors.sparse
    return PointCopy(
        id=point.id,
        payload=point.payload,
        dense=np.asarray(point.vectors.dense, "<f4").tobytes(),
        indices=np.asarray(sparse.indices, "<u4").tobytes(),
        values=np.asarray(sparse.values, "<f4").tobytes(),
    )


def points_of(copy: CollectionCopy, copies: tuple[PointCopy, ...]) -> list[Point]:
    """The points of a copy; raises Fault(invalid_argument) where their vectors do not fit it."""
    return [_point(copy, one) for one in copies]


def _point(copy: CollectionCopy, one: PointCopy) -> Point:
    if not one.dense:
        return Point(one.id, one.payload)
    sizes = {len(one.indices), len(one.values)}
    if len(one.dense) != 4 * copy.dimensions or len(sizes) != 1 or len(one.indices) % 4:
        raise Fault(
            ErrorCode.INVALID_ARGUMENT,
            f"Point {one.id} has vectors of another length than its collection. Make the backup "
            "again.",
        )
    dense: list[Any] = np.frombuffer(one.dense, "<f4").tolist()
    indices: list[Any] = np.frombuffer(one.indices, "<u4").tolist()
    values: list[Any] = np.frombuffer(one.values, "<f4").tolist()
    return Point(one.id, one.payload, Vectors(dense, Sparse(indices, values)))
