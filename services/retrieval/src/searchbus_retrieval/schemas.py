"""What a collection is made of: the types of its fields, and the model of its vectors.

Both stand in a record of the collection itself, so that every process that opens the store
finds them.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from dataclasses import dataclass

from searchbus_contracts import ErrorCode, Fault
from searchbus_contracts.retrieval import FieldType
from searchbus_vectors import MODEL_NAME, Embedder, Point, VectorStore

from . import identity
from .faults import typed, unknown_collection
from .records import store_fields

__all__ = ["Schema", "Schemas"]

log = logging.getLogger("searchbus.retrieval")


@dataclass(frozen=True, slots=True)
class Schema:
    """One collection: field → type, and the name of the model that embedded its passages."""

    fields: Mapping[str, FieldType]
    model: str


class Schemas:
    """The schemas of a store's collections, read once and kept."""

    def __init__(self, store: VectorStore) -> None:
        self._store = store
        self._known: dict[str, Schema] = {}
        self._lock = asyncio.Lock()

    async def all(self) -> dict[str, Schema]:
        """Every collection of the store that is one of ours, sorted by name."""
        for name in await self._store.collections():
            if name not in self._known:
                try:
                    await self._load(name)
                except Fault as fault:  # the store lists it as damaged
                    log.error("%s", fault.failure.message)
        return dict(sorted(self._known.items()))

    async def find(self, collection: str) -> Schema | None:
        """The schema of one collection; None where it does not exist."""
        if collection not in self._known:
            await self._load(collection)  # another replica may have created it
        return self._known.get(collection)

    async def get(self, collection: str) -> Schema:
        """The schema of one collection; raises Fault(not_found)."""
        schema = await self.find(collection)
        if schema is None:
            raise unknown_collection(collection)
        return schema

    async def ensure(
        self, collection: str, fields: Mapping[str, FieldType], embedder: Embedder
    ) -> None:
        """Create the collection, or add new fields to it. The type of a field never changes.

        Args:
            embedder: makes the vectors of a collection that does not exist.
        """
        known = self._known.get(collection)
        if known is not None and fields.keys() <= known.fields.keys():
            return
        async with self._lock:
            if collection not in self._known:
                await self._load(collection)
            known = self._known.get(collection) or Schema({}, embedder.model)
            merged = {**fields, **known.fields}
            record = {"kind": "collection", "fields": merged, "model": known.model}
            point = Point(identity.collection_record_id(collection), record)
            with typed(collection):
                await self._store.ensure_collection(
                    collection, store_fields(merged), dimensions=embedder.dimensions
                )
                await self._store.upsert(collection, [point])
            self._known[collection] = Schema(merged, known.model)

    def forget(self, collection: str) -> None:
        """Call it when the collection is deleted."""
        self._known.pop(collection, None)

    async def _load(self, collection: str) -> None:
        """A collection without a record of its own belongs to another program: leave it alone."""
        try:
            with typed(collection):
                key = identity.collection_record_id(collection)
                found = await self._store.get(collection, [key])
        except Fault as fault:
            if fault.code == ErrorCode.NOT_FOUND:
                return
            raise
        if found:
            payload = found[0].payload
            # Collections of earlier releases have no model's name: there was only this one.
            self._known[collection] = Schema(payload["fields"], payload.get("model", MODEL_NAME))
