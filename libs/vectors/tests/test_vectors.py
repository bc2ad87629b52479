"""Vectors as services and stores exchange them."""

from __future__ import annotations

from searchbus_vectors import DIMENSIONS, Sparse, Vectors
from searchbus_vectors.hash_embedder import HashEmbedder


async def test_every_embedder_has_the_length_of_the_stores():
    """A collection is created with it."""
    (made,) = await HashEmbedder().embed_documents(["x"])
    assert len(made.dense) == DIMENSIONS == 384
    assert isinstance(made, Vectors)
    assert len(made.sparse.indices) == len(made.sparse.values)


def test_equal_vectors_are_equal():
    """They are values."""
    assert Sparse([1], [1.0]) == Sparse([1], [1.0])
