"""Collections of a store: fields, embedding models, and failures of the store as faults."""

from __future__ import annotations

import asyncio
import logging
import math
import time
import uuid
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from types import MappingProxyType

from msgspec import Struct, convert, structs

from searchbus_contracts import ErrorCode, Fault
from searchbus_contracts.retrieval import FieldType
from searchbus_vectors import (
    CollectionDamagedError,
    CollectionMissingError,
    Embedder,
    ModelNotFoundError,
    Point,
    QueryCache,
    StorageFullError,
    StoreUnavailableError,
    VectorStore,
)

from .records import point_id, store_fields

log = logging.getLogger("searchbus.retrieval")


@contextmanager
def typed(collection: str = "") -> Iterator[None]:
    """Raise Fault(not_found | unavailable | storage_full) for what the store raises."""
    try:
        yield
    except CollectionMissingError:
        raise unknown_collection(collection) from None
    except CollectionDamagedError as error:
        raise damaged_collection(error.collection, error.reason) from error
    except StorageFullError as error:
        log.warning("collection %s: storage is full: %s", collection, error)
        raise Fault(
            ErrorCode.STORAGE_FULL,
            "The disk of the documents is full. Nothing was stored; what is stored can be read. "
            "Free space or delete a collection, then send it again.",
        ) from error
    except StoreUnavailableError as error:
        log.warning("%s", error)
        remedy = "Try again shortly." if error.retryable else "Ask its operator: the log says why."
        raise Fault(
            ErrorCode.UNAVAILABLE,
            f"{error.what} It stores the documents. {remedy}",
            retryable=error.retryable,
        ) from error


_STAGED = "~next"
"""No caller can name such a collection: a name is a token of a subject."""


def staged(collection: str) -> str:
    """The collection that is made to take the place of another one."""
    return collection + _STAGED


def is_staged(collection: str) -> bool:
    """Whether a collection is being made to take the place of another one."""
    return collection.endswith(_STAGED)


def origin_of(collection: str) -> str:
    """The collection whose place it takes, or itself."""
    return collection.removesuffix(_STAGED)


def unknown_collection(collection: str) -> Fault:
    """The failure for a collection that does not exist, or that the caller may not read."""
    return Fault(
        ErrorCode.NOT_FOUND,
        f"There is no collection '{collection}'. Make it by "
        f"`searchbus ingest SOURCE --collection {collection}`.",
    )


def unknown_cursor() -> Fault:
    """The failure for a cursor that no page gave."""
    message = "Unknown cursor. Omit it to start from the first page."
    return Fault(ErrorCode.INVALID_ARGUMENT, message)


def page_start(cursor: str | None) -> str | None:
    """The id at which a page starts; raises Fault(invalid_argument) for what is no id."""
    try:
        return None if cursor is None else str(uuid.UUID(cursor))
    except ValueError:
        raise unknown_cursor() from None


def damaged_collection(collection: str, reason: str) -> Fault:
    """The failure for a collection whose files are damaged."""
    return _unavailable(
        f"Collection '{collection}' is damaged: {reason}. Put its folder back from a copy and "
        "restart the service, or delete the collection and ingest it again."
    )


def _unavailable(message: str) -> Fault:
    """A failure that waiting does not mend."""
    return Fault(ErrorCode.UNAVAILABLE, message, retryable=False)


_FRESH_S = 5.0


class Schema(Struct, frozen=True):
    """One collection, as its own record keeps it.

    Args:
        fields: of its documents' metadata.
        model: that embedded its passages.
        facts: fields that were read of its documents (facts.py).
    """

    fields: dict[str, FieldType]
    model: str
    facts: dict[str, FieldType] = {}


class Schemas:
    """The schemas of a store's collections, kept for some seconds.

    On a server another replica may add fields, or delete a collection and make it again.

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
        with typed():
            names = await self._store.collections()
        for name in names:
            if name not in self._known:
                try:
                    await self._load(name)
                except Fault as fault:
                    if fault.failure.retryable:
                        raise
                    log.error("%s", fault.failure.message)  # the store lists it as damaged
        return [name for name in names if name in self._known]

    async def find(self, collection: str) -> Schema | None:
        """The schema of one collection; None where it does not exist."""
        if self._clock() - self._read_s.get(collection, -math.inf) >= _FRESH_S:
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
        declared: Mapping[str, FieldType] = MappingProxyType({}),
    ) -> Schema:
        """Create the collection, or add new fields to it. The type of a field never changes.

        Args:
            fields: where the collection has them, its types stay.
            embedder: makes the vectors of a collection that does not exist.
            facts: fields that are read of its documents.
            declared: fields that must have these types.

        Raises:
            Fault: invalid_argument; the collection has a declared field with another type.
        """
        fields = {**fields, **declared}
        known = self._known.get(collection)
        _check_declared(collection, known, declared)
        if known and fields.keys() <= known.fields.keys() and facts.keys() <= known.facts.keys():
            return known
        async with self._lock:
            await self._load(collection)  # another replica may have added fields
            known = self._known.get(collection) or Schema({}, embedder.model)
            _check_declared(collection, known, declared)
            schema = Schema({**fields, **known.fields}, known.model, {**facts, **known.facts})
            with typed(collection):
                await self._store.ensure_collection(
                    collection,
                    store_fields(schema.fields, schema.facts),
                    dimensions=embedder.dimensions,
                )
            await self.write(collection, schema)
            return schema

    async def write(self, collection: str, schema: Schema) -> None:
        """Store the schema of a collection that exists."""
        with typed(collection):
            await self._store.upsert(collection, [_record_of(collection, schema)])
        self._keep(collection, schema)

    async def take_place(self, staged: str, collection: str) -> None:
        """Put a staged collection in the place of another one; raises Fault(not_found)."""
        schema = await self.get(staged)
        with typed(collection):
            await self._store.upsert(staged, [_record_of(collection, schema)])
            await self._store.rename_collection(staged, collection)
        self.forget(staged)
        self._keep(collection, schema)

    def forget(self, collection: str) -> None:
        """Call it when the collection is deleted."""
        self._known.pop(collection, None)
        self._read_s.pop(collection, None)

    def _keep(self, collection: str, schema: Schema) -> None:
        self._known[collection] = schema
        self._read_s[collection] = self._clock()

    async def _load(self, collection: str) -> None:
        try:
            with typed(collection):
                key = point_id("collection", collection)
                found = await self._store.get(collection, [key])
        except Fault as fault:
            if fault.code != ErrorCode.NOT_FOUND:
                raise
            found = []
        if found:
            self._keep(collection, convert(found[0].payload, Schema))
        else:  # without a record of its own it belongs to another program
            self.forget(collection)


def contradictions(schema: Schema, declared: Mapping[str, FieldType]) -> list[str]:
    """The declared fields that have another type."""
    return [name for name, kind in declared.items() if schema.fields.get(name, kind) != kind]


def _check_declared(
    collection: str, schema: Schema | None, declared: Mapping[str, FieldType]
) -> None:
    if schema is not None and (names := contradictions(schema, declared)):
        name = names[0]
        raise Fault(
            ErrorCode.INVALID_ARGUMENT,
            f"The field {name} of collection '{origin_of(collection)}' is {schema.fields[name]}, "
            f"not {declared[name]}. Ingest with --rebuild to change its type.",
        )


def _record_of(collection: str, schema: Schema) -> Point:
    payload = {"kind": "collection", **structs.asdict(schema)}
    return Point(point_id("collection", collection), payload)


Load = Callable[[str], Awaitable[Embedder]]
"""Loads the embedder of a model; raises ModelNotFoundError."""


class Models:
    """Belongs to one event loop; `default` is the embedder of collections without a choice.

    Args:
        embedder: of collections for which no model is chosen.
        chosen: collection → model of a new one; "*" stands for every other.
        load: for other models than the embedder's; None: there are no others.
    """

    def __init__(
        self,
        embedder: Embedder,
        *,
        chosen: Mapping[str, str] | None = None,
        load: Load | None = None,
    ) -> None:
        self.default = embedder
        self._chosen = chosen or {}
        self._load = load
        self._loaded = {embedder.model: embedder}
        self._queries: dict[str, QueryCache] = {}
        self._loading = asyncio.Lock()

    def of_new(self, collection: str) -> str:
        """The name of the model that a new collection gets."""
        return self._chosen.get(collection) or self._chosen.get("*") or self.default.model

    async def embedder(self, collection: str, model: str) -> Embedder:
        """The embedder of a collection's model; raises Fault(unavailable) where this service does
        not have it."""
        if model not in self._loaded:
            async with self._loading:
                if model not in self._loaded:
                    self._loaded[model] = await self._load_other(collection, model)
        return self._loaded[model]

    async def queries(self, collection: str, model: str) -> QueryCache:
        """The embedder for queries, which keeps the latest; raises as `embedder`."""
        if model not in self._queries:
            embedder = await self.embedder(collection, model)
            self._queries.setdefault(model, QueryCache(embedder))
        return self._queries[model]

    async def close(self) -> None:
        """Close every embedder that was loaded here."""
        for embedder in self._loaded.values():
            if embedder is not self.default:
                await embedder.close()

    async def _load_other(self, collection: str, model: str) -> Embedder:
        if self._load is None:
            raise _unavailable(
                f"Collection '{collection}' holds vectors of {model}, but this service embeds with "
                f"{self.default.model}. Change SEARCHBUS_EMBEDDER back, or delete the collection "
                "and ingest it again."
            )
        try:
            embedder = await self._load(model)
        except ModelNotFoundError as error:
            log.error("the model %s of collection %s: %s", model, collection, error)
            raise _unavailable(
                f"Collection '{collection}' is embedded with {model}, which cannot be loaded. "
                f"{error}"
            ) from error
        log.info("loaded the model %s for collection %s", model, collection)
        return embedder
