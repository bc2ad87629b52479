"""The interface of embedders: each request is one span of a trace."""

from __future__ import annotations

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from searchbus_vectors import Embedder, embedder
from searchbus_vectors.hash_embedder import HashEmbedder


async def test_requests_are_spans_that_say_how_many_texts(monkeypatch):
    """A text that a caller waits for is a query, whatever it is."""
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr(embedder, "_tracer", provider.get_tracer("test"))
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
