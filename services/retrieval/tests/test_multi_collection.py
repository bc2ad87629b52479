"""One query to several collections."""

from __future__ import annotations

import pytest

from searchbus_contracts import Fault
from searchbus_retrieval.multi_collection import search_collections

from .conftest import document


@pytest.fixture
async def two(library):
    await library.store("old", document("o", "Whales sing.", collection="old", metadata={"n": 1}))
    await library.store("new", document("n", "Whales and dolphins.", collection="new"))
    return library


async def test_hits_of_all_collections_are_one_list(two):
    """Best first; without names, every collection."""
    reply = await search_collections(two, (), "whales sing", limit=5)
    assert [hit.collection for hit in reply.hits] == ["old", "new"]
    assert reply.failed == {}


async def test_failed_collections_are_named(two):
    """The others still give their hits."""
    reply = await search_collections(two, ("old", "none"), "whales", limit=5, where={"n": 1})
    assert [hit.collection for hit in reply.hits] == ["old"]
    assert (reply.searched, reply.failed) == (("old",), {"none": "not_found"})


async def test_only_collection_fails_with_its_own_failure(two):
    """And an invalid query fails whatever else succeeds."""
    with pytest.raises(Fault, match="not_found"):
        await search_collections(two, ("none",), "whales", limit=5)
    with pytest.raises(Fault, match="invalid_query"):
        await search_collections(two, ("old", "new"), " ", limit=5)


async def test_failure_of_all_is_one_failure(two):
    """It says what to correct; an empty list of hits would look like a success."""
    with pytest.raises(Fault, match="invalid_argument: Unknown field 'unknown'"):
        await search_collections(two, ("old", "new"), "whales", limit=5, where={"unknown": 1})
