"""Storing, finding and reading documents."""

from __future__ import annotations

import pytest

from searchbus_contracts import Fault
from searchbus_contracts.ingest import document_id
from searchbus_retrieval.library import Library
from searchbus_retrieval.multi_collection import search_collections
from searchbus_testing.folders import quick_folder
from searchbus_vectors import open_store
from searchbus_vectors.embedded import EmbeddedStore

from .conftest import document


async def ids(library: Library) -> set[str]:
    hits = await library.search("c", "anything at all about whales", limit=50)
    return {hit.chunk_id for hit in hits}


async def test_stored_document_is_found_and_returned_whole(library):
    """Search gives its passage, get its exact text."""
    text = "Whales sing.\n\nTheir songs travel far under water.  \n"
    await library.store("c", document("w", text, url="https://example.org/w", metadata={"n": 1}))
    hit = (await library.search("c", "songs of whales"))[0]
    assert hit.document_id == document_id("c", "w")
    assert 0 < hit.cosine <= 1
    found = await library.get("c", hit.document_id)
    assert (found.text, found.url, found.metadata) == (text, "https://example.org/w", {"n": 1})


async def test_storing_again_changes_nothing(library):
    """Same input, same ids, outcome unchanged."""
    first = await library.store("c", document("w", "Whales sing."))
    before = await ids(library)
    again = await library.store("c", document("w", "Whales sing."))
    assert (first.outcome, again.outcome) == ("stored", "unchanged")
    assert await ids(library) == before


async def test_changed_document_replaces_its_passages(library):
    """No passage of the old text is found any more."""
    await library.store("c", document("w", "Whales sing. " * 200))
    result = await library.store("c", document("w", "Dolphins whistle."))
    assert result.outcome == "replaced"
    hits = await library.search("c", "whales", limit=50)
    assert [hit.text for hit in hits] == ["Dolphins whistle."]
    assert (await library.get("c", document_id("c", "w"))).text == "Dolphins whistle."


async def test_deleted_document_is_gone(library):
    """Neither search nor get finds it."""
    await library.store("c", document("w", "Whales sing."))
    assert await library.delete("c", (document_id("c", "w"), "unknown")) == 1
    assert await library.search("c", "whales") == []
    with pytest.raises(Fault, match="no document"):
        await library.get("c", document_id("c", "w"))


@pytest.mark.parametrize("size_mib", [0.9, 1, 5, pytest.param(16, marks=pytest.mark.slow)])
async def test_large_document_is_byte_exact(library, embedder, size_mib, monkeypatch):
    """Up to 16 MiB comes back as it went in."""

    async def no_vectors(texts):
        from searchbus_vectors import Sparse, Vectors

        return [Vectors([1.0] + [0.0] * 383, Sparse([1], [1.0])) for _ in texts]

    monkeypatch.setattr(embedder, "embed_documents", no_vectors)
    unit = "All work and no play; é ✓ 𝄞.\n"
    text = (unit * (int(size_mib * 1024 * 1024) // len(unit.encode()) + 1)).encode()
    text = text[: int(size_mib * 1024 * 1024)].decode(errors="ignore")
    await library.store("c", document("big", text))
    assert (await library.get("c", document_id("c", "big"))).text == text


@pytest.fixture
async def damaged(embedder):
    """A library whose collection `bad` lost its configuration; `good` and `bad` had a document."""
    with quick_folder() as folder:
        store = await open_store(folder=folder)
        library = await Library.open(store, embedder)
        for name in ("bad", "good"):
            await library.store(name, document("w", f"{name} whales sing.", collection=name))
        await store.close()
        (folder / "bad" / "edge_config.json").unlink()
        store = await open_store(folder=folder)
        yield await Library.open(store, embedder)
        await store.close()


async def test_damaged_collection_is_named_and_the_others_answer(damaged):
    """In the list, in searches over all, and where a document is not found elsewhere."""
    assert "edge_config.json" in damaged.damaged["bad"]
    found = await search_collections(damaged, (), "whales", limit=5)
    assert ([hit.collection for hit in found.hits], found.failed) == (
        ["good"], {"bad": "unavailable"},
    )  # fmt: skip
    infos = {info.name: info for info in await damaged.list_collections()}
    assert "edge_config.json" in infos["bad"].damage
    assert (infos["good"].documents, infos["good"].damage) == (1, "")
    assert (await damaged.get(None, document_id("good", "w"))).collection == "good"
    for reading in (
        damaged.get(None, document_id("bad", "w")),
        damaged.search("bad", "whales"),
        damaged.list_documents("bad", limit=5),
        damaged.count_documents("bad"),
    ):
        with pytest.raises(Fault, match="'bad' is damaged") as raised:
            await reading
        assert (raised.value.code, raised.value.failure.retryable) == ("unavailable", False)


async def test_damaged_collection_is_not_erased_by_a_document(damaged):
    """Only who deletes it can fill it again."""
    new = document("n", "A new one.", collection="bad")
    with pytest.raises(Fault, match="'bad' is damaged"):
        await damaged.store("bad", new)
    await damaged.delete("bad", ())
    assert (await damaged.store("bad", new)).outcome == "stored"
    assert damaged.damaged == {}


async def test_full_disk_refuses_documents_and_answers_searches(embedder):
    """With `storage_full`; what was acknowledged stays, also after a start on the full disk."""
    free = [100]
    with quick_folder() as folder:
        for run in (1, 2):
            store = EmbeddedStore(folder, min_free_bytes=50, free_bytes=lambda _: free[0])
            library = await Library.open(store, embedder)
            if run == 1:
                await library.store("c", document("w", "Whales sing."))
                free[0] = 49
            for name in ("c", "new"):
                with pytest.raises(Fault, match="storage_full"):
                    await library.store(name, document("v", "Dolphins.", collection=name))
            assert [hit.text for hit in await library.search("c", "whales")] == ["Whales sing."]
            assert (await library.get("c", document_id("c", "w"))).text == "Whales sing."
            await store.close()


async def test_collection_that_another_process_deleted_is_made_again(store, embedder):
    """By the next document; until then nothing of it is listed."""
    here, there = await Library.open(store, embedder), await Library.open(store, embedder)
    await here.store("c", document("w", "Whales sing.", metadata={"year": 2024}))
    await there.delete("c", ())
    assert await here.names() == []
    assert await here.list_collections() == []
    new = document("v", "Dolphins whistle.", metadata={"year": 2025})
    assert (await here.store("c", new)).outcome == "stored"
    (info,) = await here.list_collections()
    assert (info.documents, info.fields) == (1, {"year": "integer"})
    assert [hit.text for hit in await here.search("c", "whistle")] == ["Dolphins whistle."]
