"""The model once for all, a library on an embedded store for each test."""

from __future__ import annotations

import pytest
import pytest_asyncio

from searchbus_contracts.document_ids import document_id
from searchbus_contracts.retrieval import Chunk, NewDocument
from searchbus_retrieval.library import Library
from searchbus_vectors import load_embedder, open_store


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def embedder():
    embedder = await load_embedder()
    yield embedder
    await embedder.close()


@pytest.fixture
async def library(tmp_path, embedder):
    store = await open_store(folder=tmp_path / "store")
    yield await Library.open(store, embedder)
    await store.close()


def document(
    source_id: str, text: str, *, collection: str = "c", title: str | None = None, **more
) -> NewDocument:
    """A document of passages of at most 1,000 characters."""
    return NewDocument(
        document_id=document_id(collection, source_id),
        title=title or f"Title of {source_id}",
        text=text,
        chunks=tuple(
            Chunk(start=start, end=min(start + 1000, len(text)))
            for start in range(0, len(text), 1000)
        ),
        **more,
    )
