"""What a collection is made of: the types of its fields, and the model of its vectors.

Both stand in a record of the collection itself, so that every process that opens the store
finds them. On a server another replica may add fields, delete the collection and make it again:
what is known of it is read again after a few seconds.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from searchbus_contracts import ErrorCode, Fault
from searchbus_contracts.retrieval import FieldType
from searchbus_vectors import MODEL_NAME, Embedder, Point, VectorStore

from . import identity
from .faults import typed, unknown_collection
from .records import store_fields

__all__ = ["Schema", "Schemas"]

log = logging.getLogger("searchbus.retrieval")
_FRESH_S = 5.0


@dataclass(frozen=True, slots=True)
class Schema:
    """One collection: field → type, and the name of the model that embedded its passages.

    Attributes:
        facts: fields that were read of its documents (facts.py).
    """

    fields: Mapping[str, FieldType]
    model: str
    facts: Mapping[str, FieldType] = field(default_factory=dict)


class Schemas:
    """The schemas of a store's collections, kept for some seconds.

    Args:
        clock: seconds, monotonic.
    """

    def __init__(self, store: VectorStore, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._store = store
        self._clock = clock
        self._known: dict[str, Schema] = {}
        self._read_s: dict[str, float] = {}
        self._lock = asyncio.Lock()

    async def names(self) -> list[str]:
        """Every collection of the store that is one of ours, sorted."""
        names = await self._store.collections()
        for name in names:
            if name not in self._known:
                try:
                    await self._load(name)
                except Fault as fault:  # the store lists it as damaged
                    log.error("%s", fault.failure.message)
        return [name for name in names if name in self._known]

    async def find(self, collection: str) -> Schema | None:
        """The schema of one collection; None where it does not exist."""
        if not self._is_fresh(collection):
            await self._load(collection)
        return self._known.get(collection)

    async def get(self, collection: str) -> Schema:
        """The schema of one collection; raises Fault(not_found)."""
        schema = await self.find(collection)
        if schema is None:
            raise unknown_collection(collection)
        return schema

    async def ensure(
        self,
        collection: str,
        fields: Mapping[str, FieldType],
        embedder: Embedder,
        facts: Mapping[str, FieldType] = MappingProxyType({}),
    ) -> None:
        """Create the collection, or add new fields to it. The type of a field never changes.

        Args:
            embedder: makes the vectors of a collection that does not exist.
            facts: fields that are read of its documents.
        """
        known = self._known.get(collection)
        if (
            known is not None
            and fields.keys() <= known.fields.keys()
            and facts.keys() <= known.facts.keys()
        ):
            return
        async with self._lock:
            await self._load(collection)  # another replica may have added fields
            known = self._known.get(collection) or Schema({}, embedder.model)
            merged = {**fields, **known.fields}
            read = {**facts, **known.facts}
            record = {"kind": "collection", "fields": merged, "model": known.model, "facts": read}
            point = Point(identity.collection_record_id(collection), record)
            with typed(collection):
                await self._store.ensure_collection(
                    collection, store_fields(merged, read), dimensions=embedder.dimensions
                )
                await self._store.upsert(collection, [point])
            self._keep(collection, Schema(merged, known.model, read))

    def forget(self, collection: str) -> None:
        """Call it when the collection is deleted."""
        self._known.pop(collection, None)
        self._read_s.pop(collection, None)

    def _is_fresh(self, collection: str) -> bool:
        read_s = self._read_s.get(collection)
        return read_s is not None and self._clock() - read_s < _FRESH_S

    def _keep(self, collection: str, schema: Schema) -> None:
        self._known[collection] = schema
        self._read_s[collection] = self._clock()

    async def _load(self, collection: str) -> None:
        """A collection without a record of its own belongs to another program: leave it alone."""
        try:
            with typed(collection):
                key = identity.collection_record_id(collection)
                found = await self._store.get(collection, [key])
        except Fault as fault:
            if fault.code == ErrorCode.NOT_FOUND:
                self.forget(collection)
                return
            raise
        if not found:
            self.forget(collection)
            return
        payload = found[0].payload
        # Collections of earlier releases have no model's name: there was only this one.
        model, facts = payload.get("model", MODEL_NAME), payload.get("facts") or {}
        self._keep(collection, Schema(payload["fields"], model, facts))
