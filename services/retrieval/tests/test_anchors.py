"""Every hit says where it stands in its document, also in collections of earlier releases."""

from __future__ import annotations

import hashlib

import pytest

from searchbus_retrieval.library import Library
from searchbus_vectors import Point

from .conftest import document

ADDED = {"start", "end", "content_hash", "chars"}
PEARS = "Pears and plums.\r\n" * 90


class EarlierStore:
    """Writes what a release without anchors wrote; reads are counted."""

    def __init__(self, store) -> None:
        self._store = store
        self.gets = 0

    def __getattr__(self, name):
        return getattr(self._store, name)

    async def upsert(self, collection, points):
        old = [
            Point(p.id, {k: v for k, v in p.payload.items() if k not in ADDED}, p.vectors)
            for p in points
        ]
        await self._store.upsert(collection, old)

    async def get(self, collection, ids):
        self.gets += 1
        return await self._store.get(collection, ids)


@pytest.fixture
async def earlier(store, embedder):
    old = EarlierStore(store)
    library = await Library.open(old, embedder)
    await library.store("c", document("pears", PEARS + "Sardines at the end of it."))
    await library.store("c", document("plums", PEARS))
    return library, old


async def holds(library, hits):
    for hit in hits:
        found = await library.get("c", hit.document_id)
        assert found.text[hit.start : hit.end] == hit.text
        assert hit.content_hash == hashlib.sha256(found.text.encode()).hexdigest()


async def test_hits_have_anchors(library):
    """text[start:end] is the passage, and the hash is the text's."""
    await library.store("c", document("pears", PEARS + "Sardines at the end of it."))
    hits = await library.search("c", "sardines", limit=5)
    assert len(hits) == 2
    await holds(library, hits)


async def test_passages_of_an_earlier_release_are_found_by_their_text(earlier):
    """The anchors are the same as with a new ingest."""
    library, _ = earlier
    hits = await library.search("c", "pears and plums", limit=10)
    assert len(hits) == 4
    await holds(library, hits)


async def test_document_of_an_earlier_release_is_read_once(earlier):
    """The second search reads its hits, and nothing more."""
    library, old = earlier
    await library.search("c", "pears and plums", limit=10)
    before = old.gets
    assert before > 1
    await library.search("c", "plums and pears", limit=10)
    assert old.gets == before + 1


async def test_collection_of_an_earlier_release_gets_its_anchors_when_documents_change(earlier):
    """Old and new passages stand side by side."""
    library, _ = earlier
    await library.store("c", document("pears", "Only sardines now."))
    hits = await library.search("c", "sardines", limit=10)
    assert any(hit.text == "Only sardines now." for hit in hits)
    await holds(library, hits)
