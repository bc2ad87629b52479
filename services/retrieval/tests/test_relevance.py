"""Which hits answer a query at all."""

from __future__ import annotations

import pytest

from searchbus_contracts.retrieval import LEAST_RELEVANCE, SearchHit
from searchbus_retrieval.multi_collection import search_collections
from searchbus_retrieval.relevance import near, only_relevant, relevant

from .conftest import document


def hits(
    *cosines: float, literal: tuple[int, ...] = (), relevance: float | None = 0.9
) -> list[SearchHit]:
    return [
        SearchHit(
            collection="c", document_id=str(n), chunk_id=str(n), title="", text="", score=0.5,
            cosine=cosine, literal=n in literal, relevance=relevance,
        )
        for n, cosine in enumerate(cosines)
    ]  # fmt: skip


def cosines(found: list[SearchHit]) -> list[float]:
    return [hit.cosine for hit in found]


def test_hits_that_probably_do_not_answer_are_no_matches():
    """Also where they are the best that there are, and where nothing is known of them."""
    assert cosines(near(hits(0.8, relevance=LEAST_RELEVANCE))) == [0.8]
    for relevance in (0.0, LEAST_RELEVANCE - 0.01, None):
        assert (
            near(hits(0.8, relevance=relevance)) == relevant(hits(0.8, relevance=relevance)) == []
        )
    assert relevant([]) == []


def test_hits_far_behind_the_best_are_beside_the_point():
    """In their order, which is not the order of the cosine alone."""
    assert cosines(relevant(hits(0.77, 0.9, 0.74, 0.76))) == [0.77, 0.9, 0.76]
    assert cosines(relevant(hits(0.9, 0.3, literal=(1,)))) == [0.9, 0.3]


def test_first_hit_stays_however_far_behind():
    """The ranking knows more than the cosine: which is the latest, which has the numbers."""
    assert cosines(relevant(hits(0.65, 0.9, 0.7))) == [0.65, 0.9]


@pytest.mark.parametrize(
    "query",
    ["best pizza in Naples", "Who painted the Sistine Chapel?", "pears in March 1985",
     "What did the Committee decide in June 2060?"],
)  # fmt: skip
async def test_question_without_an_answer_has_no_match(fomc_library, query):
    """Unrelated, or of a date at which no document is; its hits are given with a low relevance."""
    reply = await search_collections(fomc_library, ("fomc",), query, limit=5)
    assert reply.hits
    assert max(hit.relevance for hit in reply.hits) < LEAST_RELEVANCE
    assert only_relevant(reply).hits == ()


@pytest.mark.parametrize(
    "query",
    ["Why had the harvest of pears been poor?", "raise the target range in March 2022",
     "statement on inflation of March 2022", "the outbreak has harmed communities"],
)  # fmt: skip
async def test_question_with_an_answer_has_a_match(fomc_library, query):
    """The first one."""
    reply = await search_collections(fomc_library, ("fomc",), query, limit=5)
    assert only_relevant(reply).hits[0] == reply.hits[0]


async def test_relevance_compares_hits_of_several_collections(library):
    """Each has the best hit of its own; only one has the answer."""
    for name, text in (("sea", "Humpback whales sing long songs in the winter."),
                       ("law", "The notary reads the contract of sale aloud.")):  # fmt: skip
        for number in range(3):
            await library.store(
                name, document(str(number), f"{text} Part {number}.", collection=name)
            )
    reply = await search_collections(library, (), "do humpback whales sing in the winter?", limit=6)
    assert {hit.collection for hit in reply.hits} == {"sea", "law"}
    assert {hit.collection for hit in only_relevant(reply).hits} == {"sea"}
