"""Cosines of texts to a question, where the retrieval service gives them in time."""

from __future__ import annotations

import pytest

from searchbus_bus import Directory
from searchbus_contracts.retrieval import MAX_COMPARED, MAX_COMPARED_CHARS
from searchbus_edge.composites.similarity import Similarity

from .conftest import OPTIONS


@pytest.fixture
async def similarity(setup, bus):
    """Over the retrieval service of `setup`."""
    directory = Directory(bus)
    await directory.start()
    yield Similarity(bus, directory)
    await directory.close()


async def test_each_text_has_a_cosine(similarity, setup):
    """Of a long one the beginning is compared."""
    texts = ["near", "far", "x" * (MAX_COMPARED_CHARS + 1)]
    assert await similarity.cosines("q", texts, **OPTIONS) == [0.7, 0.3, 0.7]
    (request,) = setup[2].compared
    assert [len(text) for text in request.texts] == [4, 3, MAX_COMPARED_CHARS]


@pytest.mark.parametrize(("query", "count"), [("fail", 1), ("q", 0), ("q", MAX_COMPARED + 1)])
async def test_what_cannot_be_had_is_done_without(similarity, query, count):
    """A failure, no text, too many."""
    assert await similarity.cosines(query, ["near"] * count, **OPTIONS) is None


async def test_service_that_is_absent_is_not_asked(bus):
    """So that nothing waits for it."""
    directory = Directory(bus)
    await directory.start()
    assert await Similarity(bus, directory).cosines("q", ["near"], **OPTIONS) is None
    await directory.close()
