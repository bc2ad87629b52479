"""The model once for all, a library on an embedded store for each test."""

from __future__ import annotations

import pytest
import pytest_asyncio

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
