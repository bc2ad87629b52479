"""A hit's score is the sum of what explains it; what is left out has a reason."""

from __future__ import annotations

import msgspec
import pytest

from searchbus_contracts.retrieval import LEAST_RELEVANCE, SearchHit, SearchReply
from searchbus_retrieval.ranking.explaining import MAX_LEFT_OUT, near, only_relevant, relevant
from searchbus_retrieval.tools import search_corpus

from ..conftest import document


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
    answer = await search_corpus(fomc_library, query, 4, None, explain=True)
    assert answer.hits
    for rank, hit in enumerate(answer.hits, 1):
        assert hit.explanation.rank == rank
        assert explained_score(hit.explanation) == pytest.approx(hit.score, abs=5e-4)
        assert hit.explanation.meaning.score == pytest.approx(hit.cosine, abs=5e-4)
    plain = await search_corpus(fomc_library, query, 4, None)
    assert [hit.chunk_id for hit in plain.hits] == [hit.chunk_id for hit in answer.hits]
    assert [hit.score for hit in plain.hits] == [hit.score for hit in answer.hits]
    assert all(hit.explanation is None for hit in plain.hits)
    assert (plain.reading, plain.left_out) == (None, ())


async def test_boosts_have_their_reasons(fomc_library):
    """Date, type and words of the question; the reading says what was wanted."""
    query = "What did the statement of March 2022 say about inflation?"
    answer = await search_corpus(fomc_library, query, 1, None, explain=True)
    (hit,) = answer.hits
    assert set(hit.explanation.boosts) == {"date", "type statement", "sentence"}
    assert answer.reading.preferences == {"date": 0.6, "type statement": 0.4}
    assert answer.reading.order is None
    literal = await search_corpus(
        fomc_library, "harvest of pears had been poor", 1, None, explain=True
    )
    assert literal.hits[0].explanation.boosts["literal"] == 1.0
    ordered = await search_corpus(
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
    reply = await library.search_all((), "whales", limit=1, explain=True)
    assert set(reply.readings) == {"a", "b"}
    (hit,), (entry,) = reply.hits, reply.left_out
    assert (entry.reason, {hit.collection, entry.collection}) == ("limit", {"a", "b"})
    plain = await library.search_all((), "whales", limit=1)
    assert (plain.readings, plain.left_out) == ({}, ())


async def test_hits_that_are_not_relevant_are_left_out(library):
    """Far from the query, or far behind the best."""
    await library.store("c", document("w", "Whales sing."))
    await library.store("c", document("z", "Nothing of the kind."))
    reply = await library.search_all(("c",), "whales sing", limit=5, explain=True)
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
    reply = await fomc_library.search_all(("fomc",), query, limit=5)
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
    reply = await fomc_library.search_all(("fomc",), query, limit=5)
    assert only_relevant(reply).hits[0] == reply.hits[0]


async def test_relevance_compares_hits_of_several_collections(library):
    """Each has the best hit of its own; only one has the answer."""
    for name, text in (("sea", "Humpback whales sing long songs in the winter."),
                       ("law", "The notary reads the contract of sale aloud.")):  # fmt: skip
        for number in range(3):
            await library.store(
                name, document(str(number), f"{text} Part {number}.", collection=name)
            )
    reply = await library.search_all((), "do humpback whales sing in the winter?", limit=6)
    assert {hit.collection for hit in reply.hits} == {"sea", "law"}
    assert {hit.collection for hit in only_relevant(reply).hits} == {"sea"}
