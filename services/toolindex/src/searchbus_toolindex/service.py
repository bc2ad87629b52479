"""Wires the service: model, index, follower, worker."""

from __future__ import annotations

from opentelemetry import metrics

from searchbus_bus import LiveGauge, Worker
from searchbus_contracts import ErrorCode, Fault
from searchbus_contracts.services import toolset_owners
from searchbus_runtime import Process
from searchbus_runtime.services import known_services
from searchbus_vectors import ModelNotFoundError

from .embedding import load_tool_embedder
from .finder import IndexFinder
from .follower import Follower
from .index import Index
from .prompts import ResearchPrompts
from .settings import ToolindexSettings
from .vector_file import VectorFile, shipped_vectors

_entries: LiveGauge[Index] = LiveGauge(
    metrics.get_meter("searchbus.toolindex"),
    "searchbus.index.entries",
    lambda index: [(count, {"kind": kind}) for kind, count in index.columns.sizes().items()],
    description="Tools, prompts and resources that can be found.",
)


def build_worker(finder: IndexFinder, *, max_in_flight: int = 256) -> Worker:
    """The worker of an index."""
    worker = Worker(
        "toolindex",
        max_in_flight=max_in_flight,
        description="Finds tools, prompts and resources by meaning.",
    )
    worker.add(finder, ResearchPrompts())
    return worker


async def start(process: Process[ToolindexSettings]) -> None:
    """Load the model, build the index, then serve."""
    settings = process.settings
    try:
        embedder = await load_tool_embedder(
            settings.embedder,
            folder=settings.model_dir,
            allow_download=settings.model_download,
            document_threads=settings.embed_threads,
            query_threads=settings.query_threads,
            second=settings.second_model,
        )
    except ModelNotFoundError as error:
        raise Fault(ErrorCode.UNAVAILABLE, str(error), retryable=False) from error
    process.resources.push_async_callback(embedder.close)
    services = known_services()
    vectors = VectorFile(
        settings.vector_file(embedder.dimensions),
        embedder.dimensions,
        shipped_vectors(embedder.model),
    )
    index = Index(embedder.model)
    _entries.watch(index)
    await process.enter(
        Follower(
            process.bus,
            index,
            embedder,
            vectors,
            grace_s=settings.grace_s,
            lost_grace_s=settings.lost_grace_s,
            declared=toolset_owners(services),
            expected=settings.expected(services.values()),
        )
    )
    await process.serve(
        build_worker(IndexFinder(index, embedder), max_in_flight=max(256, settings.max_in_flight))
    )
