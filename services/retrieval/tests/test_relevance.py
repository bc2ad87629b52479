"""Which hits match a query at all."""

from __future__ import annotations

from searchbus_contracts.retrieval import SearchHit
from searchbus_retrieval.relevance import near, relevant


def hits(*cosines: float, literal: tuple[int, ...] = ()) -> list[SearchHit]:
    return [
        SearchHit(
            collection="c", document_id=str(n), chunk_id=str(n), title="", text="", score=0.5,
            cosine=cosine, literal=n in literal,
        )
        for n, cosine in enumerate(cosines)
    ]  # fmt: skip


def cosines(found: list[SearchHit]) -> list[float]:
    return [hit.cosine for hit in found]


def test_hits_far_from_the_query_do_not_match():
    """Also where they are the best that there are."""
    assert cosines(near(hits(0.8, 0.56, 0.54))) == [0.8, 0.56]
    assert near(hits(0.5, 0.4)) == relevant(hits(0.5, 0.4)) == relevant([]) == []


def test_hits_far_behind_the_best_are_beside_the_point():
    """In their order, which is not the order of the cosine alone."""
    assert cosines(relevant(hits(0.72, 0.8, 0.69, 0.71))) == [0.72, 0.8, 0.71]


def test_hit_with_the_words_of_the_query_always_matches():
    """A name is near to nothing."""
    assert cosines(near(hits(0.3, 0.4, literal=(1,)))) == [0.4]
    assert cosines(relevant(hits(0.3, 0.9, literal=(0,)))) == [0.3, 0.9]
