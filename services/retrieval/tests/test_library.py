"""Storing and finding: whole documents, stable ids, replaced whole, repaired after a crash."""

from __future__ import annotations

import asyncio

import pytest

from searchbus_contracts import Fault
from searchbus_contracts.document_ids import document_id
from searchbus_retrieval import writing
from searchbus_retrieval.library import Library

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
    """Neither search nor get knows it."""
    await library.store("c", document("w", "Whales sing."))
    assert await library.delete("c", (document_id("c", "w"), "unknown")) == 1
    assert await library.search("c", "whales") == []
    with pytest.raises(Fault, match="no document"):
        await library.get("c", document_id("c", "w"))


@pytest.mark.parametrize("size_mib", [0.9, 1, 5, 16])
async def test_large_document_is_byte_exact(library, size_mib, monkeypatch):
    """Up to 16 MiB comes back as it went in."""

    async def no_vectors(texts):
        from searchbus_vectors import Sparse, Vectors

        return [Vectors([1.0] + [0.0] * 383, Sparse([1], [1.0])) for _ in texts]

    monkeypatch.setattr(library._writer._embedder, "embed_documents", no_vectors)
    unit = "All work and no play; é ✓ 𝄞.\n"
    text = (unit * (int(size_mib * 1024 * 1024) // len(unit.encode()) + 1)).encode()
    text = text[: int(size_mib * 1024 * 1024)].decode(errors="ignore")
    await library.store("c", document("big", text))
    assert (await library.get("c", document_id("c", "big"))).text == text


async def test_refusals_say_why(library):
    """A document that cannot be stored is answered with a reason."""
    import msgspec

    good = document("w", "Whales sing.")
    odd = msgspec.structs.replace(good, metadata={"no spaces": 1})
    assert "metadata field" in (await library.store("c", odd)).reason
    outside = msgspec.structs.replace(good, text="short")
    assert "outside of the text" in (await library.store("c", outside)).reason
    huge = msgspec.structs.replace(good, text="x" * (17 * 1024 * 1024))
    assert "16 MiB" in (await library.store("c", huge)).reason


async def test_per_document_gives_each_document_once(library):
    """The best passage of each, best document first."""
    for name in ("a", "b", "d"):
        await library.store("c", document(name, f"Whales of sea {name} sing. " * 150))
    hits = await library.search("c", "whales", limit=3, per_document=True)
    assert len({hit.document_id for hit in hits}) == 3


async def test_unknown_collection_is_not_found(library):
    """The message says how to make it."""
    with pytest.raises(Fault, match="searchbus ingest"):
        await library.search("nope", "x")


@pytest.mark.parametrize(
    ("query", "named"), [("", "empty"), (" \n", "empty"), ("x" * 1001, "1000")]
)
async def test_query_out_of_bounds_is_invalid_query(library, query, named):
    """Empty and over-long queries have their own code."""
    with pytest.raises(Fault, match=named) as caught:
        await library.search("c", query)
    assert caught.value.code == "invalid_query"


@pytest.mark.parametrize("step", range(1, 6))
@pytest.mark.parametrize("existing", [False, True])
async def test_crash_between_any_two_steps_leaves_no_half_document(
    library, embedder, monkeypatch, step, existing
):
    """After a crash and repair the document is as before or as after, never in between."""
    old, new = "Whales sing in the old sea. " * 100, "Dolphins whistle in the new sea. " * 100
    if existing:
        await library.store("c", document("w", old))
    else:
        await library.store("c", document("other", "Something else."))
    store = library._store
    calls = 0

    class Crash(Exception):
        pass

    def crashing(method):
        async def call(*arguments, **options):
            nonlocal calls
            calls += 1
            if calls > step:
                raise Crash
            return await method(*arguments, **options)

        return call

    for name in ("upsert", "delete", "set_payload"):
        monkeypatch.setattr(store, name, crashing(getattr(store, name)))
    try:
        await library.store("c", document("w", new))
        crashed = False
    except Crash:
        crashed = True
    monkeypatch.undo()
    reopened = await Library.open(store, embedder)
    texts = {h.text for h in await reopened.search("c", "sea animals sing whistle", limit=50)}
    texts.discard("Something else.")
    has_old, has_new = any("old sea" in t for t in texts), any("new sea" in t for t in texts)
    assert not (has_old and has_new)
    try:
        whole = (await reopened.get("c", document_id("c", "w"))).text
    except Fault:
        whole = None
    assert whole == (old if has_old else new if has_new else None)
    assert whole in ((old, new) if existing else (None, new))
    assert crashed or whole == new
    # Doing it again ends in the same state as an undisturbed run.
    await reopened.store("c", document("w", new))
    assert (await reopened.get("c", document_id("c", "w"))).text == new
    assert await store.count("c", writing.Equals("live", False)) == 0


async def test_concurrent_ingest_of_one_document_ends_with_one(library):
    """Racing writers of the same id leave exactly one revision."""
    texts = [f"Whales sing song number {i}. " * 80 for i in range(4)]
    await asyncio.gather(*(library.store("c", document("w", text)) for text in texts))
    hits = await library.search("c", "whales", limit=50)
    whole = (await library.get("c", document_id("c", "w"))).text
    assert whole in texts
    assert all(hit.text in whole for hit in hits)
