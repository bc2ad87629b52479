"""Storing, finding and reading documents."""

from __future__ import annotations

import pytest

from searchbus_contracts import Fault
from searchbus_contracts.document_ids import document_id
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
    """Neither search nor get finds it."""
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


async def test_passage_with_the_words_of_the_query_stands_first(library):
    """A name among many passages that are nearer by meaning; of a question, its inner words."""
    for number in range(30):
        text = f"Who is Lena of Quince, and who is Quince of Ana? Year {number} of Ana and Lena."
        await library.store("c", document(f"d{number}", text))
    present = f"Present: {', '.join(f'Person {n}' for n in range(100))}, Ana\u2011Lena Quince."
    await library.store("c", document("list", present))
    for query in ("ana-lena quince", "Who is Ana-Lena Quince?"):
        first, second = await library.search("c", query, limit=2, per_document=True)
        assert (first.document_id, first.literal) == (document_id("c", "list"), True)
        assert not second.literal
