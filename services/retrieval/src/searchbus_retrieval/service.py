"""Wires the service: store, model, library, worker. Each part may be replaced by keyword."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from functools import partial

from searchbus_bus import Worker
from searchbus_contracts import ErrorCode, Fault
from searchbus_runtime import Process
from searchbus_runtime.files import space_for_start
from searchbus_runtime.process import keep_freed_memory
from searchbus_vectors import Embedder, ModelNotFound, StoreLocked, load_embedder, open_store

from .access import OPEN, Access
from .endpoints import RetrievalEndpoints
from .library import Library
from .models import Models
from .profiles import load_profiles
from .prompts import FomcPrompts
from .resources import Documents
from .settings import RetrievalSettings
from .sizes import Sizes
from .tools import FomcTools

__all__ = ["build_worker", "load_model", "start"]

_KEPT_BYTES = 64 * 1024 * 1024
"""Four copies of the largest document."""


def build_worker(library: Library, *, access: Access = OPEN, max_in_flight: int = 64) -> Worker:
    """The worker of a library."""
    worker = Worker(
        "retrieval",
        max_in_flight=max_in_flight,
        description="Documents in Qdrant: hybrid search, whole documents, ingest.",
    )
    worker.add(
        FomcTools(library, access),
        FomcPrompts(),
        Documents(library, access),
        RetrievalEndpoints(library, access),
    )
    return worker


async def load_model(settings: RetrievalSettings, name: str) -> Embedder:
    """The embedder of another model than the default one; raises ModelNotFound."""
    return await load_embedder(
        model=name,
        folder=settings.model_folders.get(name),
        allow_download=settings.model_download,
        document_threads=settings.embed_threads,
    )


async def start(process: Process[RetrievalSettings]) -> None:
    """Open store and model, then serve."""
    settings = process.settings
    keep_freed_memory(_KEPT_BYTES)
    key = settings.qdrant_api_key
    space: AbstractContextManager[None] = nullcontext()
    if settings.qdrant_url is None:
        settings.store_folder.mkdir(parents=True, exist_ok=True)
        space = space_for_start(settings.store_folder.parent, "documents")
    try:
        with space:
            store = await open_store(
                url=settings.qdrant_url,
                folder=settings.store_folder,
                api_key=key.get_secret_value() if key else None,
                min_free_bytes=settings.min_free_mib * 2**20,
            )
        process.resources.push_async_callback(store.close)
        embedder = await load_embedder(
            settings.embedder,
            folder=settings.model_dir,
            allow_download=settings.model_download,
            document_threads=settings.embed_threads,
        )
        process.resources.push_async_callback(embedder.close)
    except (StoreLocked, ModelNotFound, ConnectionError) as error:
        raise Fault(ErrorCode.UNAVAILABLE, str(error)) from error
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
    process.health.add_detail("damaged_collections", lambda: dict(library.damaged))
    await process.enter(Sizes(library))
    await process.serve(
        build_worker(
            library,
            access=Access(settings.collection_roles),
            max_in_flight=settings.max_in_flight,
        )
    )
