"""The documents as a source."""

from __future__ import annotations

import pytest

from searchbus_contracts import Fault
from searchbus_edge.composites.sources import Anchor, Quoted

from .conftest import IDS, OPTIONS


async def test_documents_have_an_address_of_their_own_or_ours(setup):
    """A file of the server's disk is no address."""
    documents, *_ = setup
    first, second = (await documents.search("q", 10, passages=1, **OPTIONS)).hits
    assert first.url == "https://edge.example/documents/books/d%2F1"
    assert (first.title, first.source, first.weight) == ("d/1", "documents/books", 1.0)
    assert (second.url, second.title) == ("https://x.example", "Two")


async def test_documents_of_one_title_are_told_apart_by_their_files(setup):
    """Two READMEs, for instance; one that is no file keeps its title alone."""
    documents, _, retrieval, _ = setup
    retrieval.title = "Two"
    found = await documents.search("q", 10, passages=2, **OPTIONS)
    assert [hit.title for hit in found.hits] == ["Two (a/two.md)", "Two"]


async def test_collections_without_hits_are_named_too(setup):
    """A reader sees that they were searched."""
    documents, _, retrieval, _ = setup
    retrieval.searched = ("books", "laws")
    parts = (await documents.search("q", 10, passages=1, **OPTIONS)).parts
    assert [(part.source, part.state, part.results) for part in parts] == [
        ("documents/books", "answered", 2),
        ("documents/laws", "empty", 0),
    ]


async def test_documents_count_half_where_none_is_near(setup):
    """Beside other sources."""
    documents, _, retrieval, _ = setup
    retrieval.relevance = 0.49
    found = await documents.search("q", 10, passages=1, **OPTIONS)
    assert {hit.weight for hit in found.hits} == {0.5}


async def test_document_is_fetched_by_its_id(setup):
    """Metadata as text; other ids are another source's."""
    documents, *_ = setup
    fetched = await documents.fetch(IDS.of_document("books", "d/1"), **OPTIONS)
    assert (fetched.title, fetched.text) == ("d/1", "all")
    assert fetched.metadata == {"source": "documents", "collection": "books", "year": "2024"}
    assert await documents.fetch("web:x", **OPTIONS) is None
    with pytest.raises(Fault, match="no such id"):
        await documents.fetch(IDS.of_document("books", "x" * 513), **OPTIONS)


async def test_part_of_a_document_has_its_place_in_the_whole(setup):
    """The service gives the part and the length of all."""
    documents, *_ = setup
    found = await documents.fetch(IDS.of_document("books", "d/1"), start=1, end=2, **OPTIONS)
    assert (found.text, found.start, found.chars) == ("l", 1, 3)


@pytest.mark.parametrize(
    "hit_id", [IDS.of_document("books", "d/1"), "0f0c3d52-6f3b-5a35-9d0e-3f5b8f0a7c11"]
)
async def test_quotation_is_found_by_the_service(setup, hit_id):
    """By the id of a result or by a document's bare id; other ids are another source's."""
    documents, *_ = setup
    found = await documents.quote(hit_id, "all", **OPTIONS)
    assert (found.match, found.id, found.content_hash) == ("exact", f"{hit_id}#0-3", "h")
    assert found.url.startswith("https://edge.example/documents/books/")
    assert (await documents.quote(hit_id, "qqq", **OPTIONS)).id == hit_id
    assert await documents.quote("web:x", "all", **OPTIONS) is None
    with pytest.raises(Fault, match="no such id"):
        await documents.quote(IDS.of_document("books", "x" * 513), "all", **OPTIONS)


async def test_passages_of_a_document_come_with_its_hit(setup):
    """Several of one document are one hit; each search leaves out what is beside the point."""
    documents, _, retrieval, _ = setup
    one = (await documents.search("q", 10, passages=1, **OPTIONS)).hits
    two = (await documents.search("q", 10, passages=2, **OPTIONS)).hits
    assert [[q.text for q in hit.passages] for hit in one] == [["t"], ["t"]]
    assert [[q.text for q in hit.passages] for hit in two] == [["t", "u"], ["t"]]
    assert await documents.passages("q", two[0], **OPTIONS) == [
        Quoted("t"),
        Quoted("u", Anchor(7, 8, "h")),
    ]
    asked = [(r.limit, r.per_document, r.relevant_only) for r in retrieval.requests]
    assert asked == [(10, True, True), (20, False, False)]


async def test_passages_that_are_far_are_given_too_where_passages_are_wanted(setup):
    """A sentence of them may answer; beside the web they come last, and count as nothing found."""
    documents, _, retrieval, _ = setup
    retrieval.relevance, retrieval.searched = 0.1, ("books",)
    found = await documents.search("q", 10, passages=2, **OPTIONS)
    assert [(hit.title, hit.weight) for hit in found.hits] == [("Two", 0.5), ("d/1", 0.1)]
    assert [q.sure for hit in found.hits for q in hit.passages] == [True, False, False]
    assert [(part.state, part.results) for part in found.parts] == [("answered", 1)]


async def test_literal_passages_leave_no_place_for_others(setup):
    """Where passages are wanted; as results, the others follow."""
    documents, _, retrieval, _ = setup
    retrieval.literal = True
    one = (await documents.search("q", 10, passages=1, **OPTIONS)).hits
    two = (await documents.search("q", 10, passages=2, **OPTIONS)).hits
    assert ([hit.title for hit in one], [hit.title for hit in two]) == (["d/1", "Two"], ["Two"])


async def test_failed_collection_is_a_failure(setup):
    """Beside the hits of the others."""
    documents, _, retrieval, _ = setup
    retrieval.failed = {"hr": "unavailable"}
    found = await documents.search("q", 10, passages=1, **OPTIONS)
    assert len(found.hits) == 2
    assert {name: f.code for name, f in found.failures.items()} == {"documents/hr": "unavailable"}
