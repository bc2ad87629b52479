"""What a store holds and gives."""

from __future__ import annotations

from searchbus_vectors import DIMENSIONS, Hit, Page, Vectors
from searchbus_vectors.hash_embedder import HashEmbedder


def test_a_hit_with_another_score_is_otherwise_the_same():
    """The ranking raises and lowers hits; the first one may stand in another list."""
    hit = Hit("a", 0.5, 0.25, {"n": 1})
    assert hit.scored(0.75) == Hit("a", 0.75, 0.25, {"n": 1})
    assert hit.score == 0.5


def test_an_empty_page_is_the_last():
    """Its records are its own."""
    page = Page()
    page.records.append(object())
    assert (Page().records, Page().next_id) == ([], None)


async def test_every_embedder_has_the_length_of_the_stores():
    """A collection is created with it."""
    (made,) = await HashEmbedder().embed_documents(["x"])
    assert len(made.dense) == DIMENSIONS == 384
    assert isinstance(made, Vectors)
    assert len(made.sparse.indices) == len(made.sparse.values)
