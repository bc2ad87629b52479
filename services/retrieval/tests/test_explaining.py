"""A hit's score is the sum of what explains it; what is no hit has a reason."""

from __future__ import annotations

import msgspec
import pytest

from searchbus_contracts.retrieval import LEAST_RELEVANCE, SearchReply
from searchbus_retrieval import fomc
from searchbus_retrieval.explaining import MAX_LEFT_OUT
from searchbus_retrieval.multi_collection import search_collections
from searchbus_retrieval.relevance import only_relevant

from .conftest import document


def explained_score(explanation) -> float:
    words = explanation.words.share if explanation.words is not None else 0.0
    return explanation.meaning.share + words + sum(explanation.boosts.values())


@pytest.mark.parametrize(
    "query",
    [
        "What did the statement of March 2022 say about inflation?",
        "rate of 1/4 to 1/2 percent",
        "When was the outbreak first mentioned?",
        "the harvest of pears had been poor",
        "zebra",
    ],
)
async def test_score_is_the_sum_of_shares_and_boosts(fomc_library, query):
    """And the explanation changes neither the hits nor their order."""
    answer = await fomc.answer(fomc_library, query, 4, None, explain=True)
    assert answer.hits
    for rank, hit in enumerate(answer.hits, 1):
        assert hit.explanation.rank == rank
        assert explained_score(hit.explanation) == pytest.approx(hit.score, abs=5e-4)
        assert hit.explanation.meaning.score == pytest.approx(hit.cosine, abs=5e-4)
    plain = await fomc.answer(fomc_library, query, 4, None)
    assert [hit.chunk_id for hit in plain.hits] == [hit.chunk_id for hit in answer.hits]
    assert [hit.score for hit in plain.hits] == [hit.score for hit in answer.hits]
    assert all(hit.explanation is None for hit in plain.hits)
    assert (plain.reading, plain.left_out) == (None, ())


async def test_boosts_have_their_reasons(fomc_library):
    """Date, type and words of the question; the reading says what was wanted."""
    query = "What did the statement of March 2022 say about inflation?"
    answer = await fomc.answer(fomc_library, query, 1, None, explain=True)
    (hit,) = answer.hits
    assert set(hit.explanation.boosts) == {"date", "type statement"}
    assert answer.reading.preferences == {"date": 0.6, "type statement": 0.4}
    assert answer.reading.order is None
    literal = await fomc.answer(
        fomc_library, "harvest of pears had been poor", 1, None, explain=True
    )
    assert literal.hits[0].explanation.boosts["literal"] == 1.0
    ordered = await fomc.answer(
        fomc_library, "When was inflation first mentioned?", 4, None, explain=True
    )
    assert ordered.reading.order == "first"
    assert "order" in ordered.hits[0].explanation.boosts


async def test_hits_behind_the_limit_are_left_out(library):
    """At most twenty, best first, with their own explanation."""
    for number in range(30):
        await library.store("c", document(str(number), f"Whales sing song number {number}."))
    answer = await library.searcher.answer("c", "whales", limit=3, explain=True)
    assert len(answer.left_out) == MAX_LEFT_OUT
    assert {entry.reason for entry in answer.left_out} == {"limit"}
    ranks = [entry.explanation.rank for entry in answer.left_out]
    assert ranks == list(range(4, 4 + MAX_LEFT_OUT))
    assert answer.reading.ranked == 30


async def test_other_passages_of_a_hit_are_left_out(library):
    """Where a search wants one passage of each document."""
    await library.store("c", document("long", "whales sing " * 200))
    await library.store("c", document("short", "whales sleep"))
    answer = await library.searcher.answer("c", "whales", limit=5, per_document=True, explain=True)
    assert len(answer.hits) == 2
    repeated = [entry for entry in answer.left_out if entry.reason == "same_document"]
    assert len(repeated) == 2
    assert len({entry.document_id for entry in repeated}) == 1


async def test_several_collections_explain_themselves_together(library):
    """Each has its reading; what the merging cuts is left out, too."""
    for name in ("a", "b"):
        await library.store(name, document("w", "Whales sing.", collection=name))
    reply = await search_collections(library, (), "whales", limit=1, explain=True)
    assert set(reply.readings) == {"a", "b"}
    (hit,), (entry,) = reply.hits, reply.left_out
    assert (entry.reason, {hit.collection, entry.collection}) == ("limit", {"a", "b"})
    plain = await search_collections(library, (), "whales", limit=1)
    assert (plain.readings, plain.left_out) == ({}, ())


async def test_hits_that_are_not_relevant_are_left_out(library):
    """Far from the query, or far behind the best."""
    await library.store("c", document("w", "Whales sing."))
    await library.store("c", document("z", "Nothing of the kind."))
    reply = await search_collections(library, ("c",), "whales sing", limit=5, explain=True)
    kept = only_relevant(reply)
    assert [hit.text for hit in kept.hits] == ["Whales sing."]
    assert [(e.reason, e.title, e.floor) for e in kept.left_out] == [
        ("far", "Title of z", LEAST_RELEVANCE)
    ]
    best = reply.hits[0]
    behind = msgspec.structs.replace(best, chunk_id="b", literal=False, cosine=0.7)
    near = msgspec.structs.replace(best, cosine=1.0)
    close = only_relevant(SearchReply(hits=(near, behind), readings=reply.readings))
    assert [(e.reason, e.floor) for e in close.left_out] == [("behind_best", 0.85)]
