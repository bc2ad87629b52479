"""Wires the service: store, model, library, worker. Each part may be replaced by keyword."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from functools import partial

from opentelemetry import metrics

from searchbus_bus import LiveGauge, Worker, end_task, telemetry
from searchbus_contracts import ErrorCode, Fault
from searchbus_runtime import Process
from searchbus_runtime.files import space_for_start
from searchbus_runtime.process import keep_freed_memory, when_there
from searchbus_vectors import (
    Embedder,
    ModelNotFoundError,
    StoreLockedError,
    StoreUnavailableError,
    VectorStore,
    load_embedder,
    open_store,
)

from . import SERVICE
from .access import OPEN, Access
from .documents.collections import Models
from .endpoints import RetrievalEndpoints
from .library import Library
from .question.profiles import load_profiles
from .resources import DocumentResources
from .settings import RetrievalSettings
from .tools import FomcPrompts, FomcTools, MemoryTools

log = logging.getLogger("searchbus.retrieval")

EVERY_S = 15.0
MAX_COLLECTIONS = 200
"""The first ones by name have a series each; all others share one."""


class Sizes:
    """Counts in the background. Use as an asynchronous context manager."""

    def __init__(self, library: Library, *, every_s: float = EVERY_S) -> None:
        self._library = library
        self._every_s = every_s
        self._found: dict[str, tuple[int, int]] = {}
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Sizes:
        self._task = asyncio.get_running_loop().create_task(self._run())
        for gauge in _gauges:
            gauge.watch(self)
        return self

    async def __aexit__(self, *_: object) -> None:
        await end_task(self._task)

    def read(self, which: int) -> Iterator[tuple[float, Mapping[str, str]]]:
        """Documents (0) or passages (1) by collection."""
        for number, (name, sizes) in enumerate(sorted(self._found.items())):
            yield sizes[which], {"collection": name if number < MAX_COLLECTIONS else "other"}

    def damaged(self) -> Iterator[tuple[float, Mapping[str, str]]]:
        """The number of collections that are damaged."""
        yield len(self._library.damaged), {}

    async def _run(self) -> None:
        while True:
            try:
                found = await self._library.list_collections()
                self._found = {c.name: (c.documents, c.chunks) for c in found}
            except Exception as error:  # the service works without these metrics
                telemetry.count_failed("sizes")
                log.warning("the collections could not be counted: %s", error)
            await asyncio.sleep(self._every_s)


_meter = metrics.get_meter("searchbus.retrieval")
_gauges = (
    LiveGauge[Sizes](
        _meter, "searchbus.index.documents", lambda s: s.read(0), description="By collection."
    ),
    LiveGauge[Sizes](
        _meter, "searchbus.index.passages", lambda s: s.read(1), description="By collection."
    ),
    LiveGauge[Sizes](
        _meter, "searchbus.index.damaged", Sizes.damaged, description="Damaged collections."
    ),
)
_KEPT_BYTES = 64 * 1024 * 1024
"""Four copies of the largest document."""


def build_worker(library: Library, *, access: Access = OPEN, max_in_flight: int = 64) -> Worker:
    """The worker of a library."""
    worker = Worker(
        "retrieval",
        max_in_flight=max_in_flight,
        description=SERVICE.description,
    )
    worker.add(
        FomcTools(library, access),
        FomcPrompts(),
        MemoryTools(library),
        DocumentResources(library, access),
        RetrievalEndpoints(library, access),
    )
    return worker


async def load_model(settings: RetrievalSettings, name: str) -> Embedder:
    """The embedder of another model than the default one; raises ModelNotFoundError."""
    return await load_embedder(
        model=name,
        folder=settings.model_folders.get(name),
        allow_download=settings.model_download,
        document_threads=settings.embed_threads,
    )


async def _open(settings: RetrievalSettings) -> VectorStore:
    """The store; raises Fault(unavailable), retryable where the store may be free soon, or up."""
    space: AbstractContextManager[None] = nullcontext()
    if settings.qdrant_url is None:
        settings.store_folder.mkdir(parents=True, exist_ok=True)
        space = space_for_start(settings.store_folder.parent, "documents")
    try:
        with space:
            return await open_store(**settings.server, folder=settings.store_folder)
    except StoreUnavailableError as error:
        raise Fault(ErrorCode.UNAVAILABLE, str(error), retryable=error.retryable) from error
    except StoreLockedError as error:  # the service of a stack that was killed still drains
        raise Fault(ErrorCode.UNAVAILABLE, str(error)) from error


async def start(process: Process[RetrievalSettings]) -> None:
    """Open the store, once it is there, and the model; then serve."""
    settings = process.settings
    keep_freed_memory(_KEPT_BYTES)
    try:
        store = await when_there("the document store", partial(_open, settings), settings)
    except Fault as fault:  # for good: `searchbus up` says so, and does not wait for the next start
        raise Fault(fault.code, fault.failure.message, retryable=False) from fault
    process.resources.push_async_callback(store.close)
    try:
        embedder = await load_embedder(
            settings.embedder,
            folder=settings.model_dir,
            allow_download=settings.model_download,
            document_threads=settings.embed_threads,
        )
        process.resources.push_async_callback(embedder.close)
    except ModelNotFoundError as error:
        raise Fault(ErrorCode.UNAVAILABLE, str(error), retryable=False) from error
    models = Models(
        embedder,
        chosen=settings.collection_models,
        load=None if settings.embedder == "hash" else partial(load_model, settings),
    )
    process.resources.push_async_callback(models.close)
    library = await Library.open(
        store,
        models,
        profiles=load_profiles(settings.profile_dir),
        repair=settings.qdrant_url is None,
    )
    process.health.add_readiness("store", library.check)
    process.health.add_detail("damaged_collections", lambda: dict(library.damaged))
    await process.enter(Sizes(library))
    await process.serve(
        build_worker(
            library, access=Access(settings.collection_roles), max_in_flight=settings.max_in_flight
        )
    )
