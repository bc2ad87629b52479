"""The interface of embedders, and the cache of queries."""

from __future__ import annotations

import asyncio

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from searchbus_vectors import Embedder, QueryCache, load_embedder
from searchbus_vectors.hash_embedder import HashEmbedder


async def test_requests_are_spans_that_say_how_many_texts(monkeypatch):
    """A text that a caller waits for is a query, whatever it is."""
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr("searchbus_vectors.embedder._tracer", provider.get_tracer("test"))
    made = HashEmbedder()
    await made.embed_query("a")
    await made.embed_documents(["a", "b"])
    await made.embed_short(["a"], urgent=True)
    await made.embed_short(["a", "b", "c"], urgent=False)
    assert [(s.name, s.attributes.get("texts")) for s in exporter.get_finished_spans()] == [
        ("embed query", None), ("embed documents", 2), ("embed query", 1), ("embed documents", 3)
    ]  # fmt: skip


def test_interface_alone_cannot_be_made():
    """An engine must have every method."""
    with pytest.raises(TypeError, match="abstract"):
        Embedder()  # type: ignore[abstract]


class Gated:
    """An embedder that answers when the gate opens, or fails."""

    def __init__(self) -> None:
        self.gate = asyncio.Event()
        self.started: list[str] = []
        self.cancelled: list[str] = []
        self.error: Exception | None = None

    async def embed_query(self, text):
        self.started.append(text)
        try:
            await self.gate.wait()
        except asyncio.CancelledError:
            self.cancelled.append(text)
            raise
        if self.error is not None:
            raise self.error
        return text.upper()


async def asked(queries: QueryCache, *texts: str) -> list[asyncio.Task]:
    tasks = [asyncio.create_task(queries.embed(text)) for text in texts]
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    return tasks


async def test_equal_queries_are_embedded_once():
    """At the same time and later on."""
    embedder = Gated()
    queries = QueryCache(embedder)
    tasks = await asked(queries, "a", "a", "b")
    embedder.gate.set()
    assert await asyncio.gather(*tasks) == ["A", "A", "B"]
    assert await queries.embed("a") == "A"
    assert embedder.started == ["a", "b"]


async def test_cancelled_caller_does_not_harm_the_other():
    """The first caller goes away; the second has its vectors."""
    embedder = Gated()
    first, second = await asked(QueryCache(embedder), "a", "a")
    first.cancel()
    await asyncio.sleep(0)
    embedder.gate.set()
    assert await second == "A"
    assert embedder.cancelled == []


async def test_query_that_nobody_waits_for_is_cancelled():
    """Its next caller starts again."""
    embedder = Gated()
    queries = QueryCache(embedder)
    for task in await asked(queries, "a", "a"):
        task.cancel()
    await asyncio.sleep(0.01)
    assert embedder.cancelled == ["a"]
    embedder.gate.set()
    assert await queries.embed("a") == "A"


async def test_failure_reaches_all_who_wait_and_is_not_kept():
    """A later caller tries again."""
    embedder = Gated()
    embedder.error = RuntimeError("no memory")
    queries = QueryCache(embedder)
    tasks = await asked(queries, "a", "a")
    embedder.gate.set()
    outcomes = await asyncio.gather(*tasks, return_exceptions=True)
    assert [str(outcome) for outcome in outcomes] == ["no memory", "no memory"]
    embedder.error = None
    assert await queries.embed("a") == "A"


async def test_number_kept_is_bounded():
    """The query that was asked for the longest time ago goes first."""
    embedder = Gated()
    embedder.gate.set()
    queries = QueryCache(embedder, kept=2)
    for text in "abca":
        await queries.embed(text)
    assert embedder.started == ["a", "b", "c", "a"]


@pytest.mark.parametrize("text", ["rates", ""])
async def test_vectors_are_the_embedders(text):
    """The cache changes nothing."""
    embedder = await load_embedder("hash")
    assert await QueryCache(embedder).embed(text) == await embedder.embed_query(text)
