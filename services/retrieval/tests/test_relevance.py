"""Which hits match a query at all."""

from __future__ import annotations

from searchbus_contracts.retrieval import SearchHit
from searchbus_retrieval.relevance import near, relevant


def hits(*cosines: float, literal: tuple[int, ...] = (), text: str = "") -> list[SearchHit]:
    return [
        SearchHit(
            collection="c", document_id=str(n), chunk_id=str(n), title="", text=text, score=0.5,
            cosine=cosine, literal=n in literal,
        )
        for n, cosine in enumerate(cosines)
    ]  # fmt: skip


def cosines(found: list[SearchHit]) -> list[float]:
    return [hit.cosine for hit in found]


def test_hits_far_from_the_query_do_not_match():
    """Also where they are the best that there are."""
    assert cosines(near("whales", hits(0.8, 0.62, 0.61))) == [0.8, 0.62]
    assert near("whales", hits(0.5)) == relevant("whales", hits(0.5)) == relevant("x", []) == []


def test_unsure_hit_matches_by_its_words():
    """A third of those of the query, in any form; stopwords are no words."""
    query = "How do the whales of the north sing?"
    assert cosines(near(query, hits(0.56, 0.54, text="A whale is there."))) == [0.56]
    assert near(query, hits(0.56, text="How do the trains of the town run?")) == []
    assert near(query + " A long song of winter nights?", hits(0.56, text="A whale.")) == []
    assert near("how do they", hits(0.56, text="how do they")) == []


def test_hits_far_behind_the_best_are_beside_the_point():
    """In their order, which is not the order of the cosine alone."""
    assert cosines(relevant("x", hits(0.77, 0.9, 0.74, 0.76))) == [0.77, 0.9, 0.76]


def test_hit_with_the_words_of_the_query_always_matches():
    """A name is near to nothing."""
    assert cosines(near("x", hits(0.3, 0.4, literal=(1,)))) == [0.4]
    assert cosines(relevant("x", hits(0.3, 0.9, literal=(0,)))) == [0.3, 0.9]


def test_hit_with_most_words_of_a_long_query_matches():
    """A question about a person is near to nothing; two words may be anywhere."""
    query = "Why did Esther George vote against it in 2013?"
    passage = "Voting against it in 2013: Esther L. George."
    assert cosines(near(query, hits(0.5, 0.44, text=passage))) == [0.5]
    assert near(query, hits(0.5, text="Esther L. George was there.")) == []
    assert near("Esther George", hits(0.5, text=passage)) == []


def test_first_hit_stays_however_far_behind():
    """The ranking knows more than the cosine: which is the latest, which has the numbers."""
    assert cosines(relevant("x", hits(0.65, 0.9, 0.7))) == [0.65, 0.9]
    assert cosines(relevant("x", hits(0.5, 0.65, 0.9))) == [0.65, 0.9]
