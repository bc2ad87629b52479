"""A library of documents in this process, as the service has it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from searchbus_contracts.ingest import IngestResult, NewDocument
from searchbus_ingest.sources.item import cut
from searchbus_retrieval.library import Library
from searchbus_vectors import Embedder, VectorStore, load_embedder, open_store


@asynccontextmanager
async def opened(
    folder: Path, embedder: Embedder | None = None
) -> AsyncIterator[tuple[Library, VectorStore, Embedder]]:
    """The library in a folder, its store and its embedder, by default the service's; closes them."""
    embedder = embedder or await load_embedder()
    store = await open_store(folder=folder)
    try:
        yield await Library.open(store, embedder), store, embedder
    finally:
        await store.close()
        await embedder.close()


async def store_text(
    library: Library, collection: str, key: str, title: str, text: str
) -> IngestResult:
    """Cut a text and store it; one whose key ends with `.md` is Markdown."""
    chunks = tuple(cut(text, markdown=key.endswith(".md")))
    document = NewDocument(document_id=key, title=title[:1000], text=text, chunks=chunks)
    return await library.store(collection, document)
