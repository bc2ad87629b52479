"""What a search of one collection finds, and in which order."""

from __future__ import annotations

import pytest

from searchbus_contracts import Fault
from searchbus_contracts.ingest import document_id
from searchbus_retrieval.library import Library
from searchbus_retrieval.profiles import Profile

from .conftest import document


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


@pytest.mark.parametrize(
    ("synonyms", "found"), [({"voting against": ("dissent",)}, ["v"]), ({}, [])]
)
async def test_synonyms_of_the_profile_are_searched_for(store, embedder, synonyms, found):
    """By words: the passage has none of the question."""
    profiles = {"c": Profile(synonyms=synonyms)}
    library = await Library.open(store, embedder, profiles=profiles)
    await library.store("c", document("v", "Voting against were two members.", title="v"))
    await library.store("c", document("w", "Whales sing of the sea.", title="w"))
    answer = await library.searcher.answer("c", "Why did they dissent?", limit=2, explain=True)
    assert [hit.title for hit in answer.hits if hit.explanation.words is not None] == found


@pytest.mark.parametrize(
    ("query", "day"),
    [
        ("target range decided at the meeting before the February 2023 meeting", "2022-03-16"),
        ("the next meeting after March 2022, target range", "2023-02-01"),
        ("the statement after the March 2022 meeting, target range", "2022-03-16"),
    ],
)
async def test_meeting_beside_a_date_is_the_collections_own(fomc_library, query, day):
    """Its documents say when there was one, however far away."""
    (first, *_) = await fomc_library.search("fomc", query, limit=2, per_document=True)
    assert first.metadata["date"] == day


async def test_no_meeting_within_a_year_changes_nothing(fomc_library):
    """The date itself is not the one that is asked for."""
    query = "the next meeting after February 2023"
    answer = await fomc_library.searcher.answer("fomc", query, limit=2, explain=True)
    assert answer.hits
