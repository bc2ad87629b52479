"""Collections are opened, or set aside with the reason; see also test_embedded."""

from __future__ import annotations

import pytest

from searchbus_vectors import opening
from searchbus_vectors.free_space import FreeSpace
from searchbus_vectors.opening import OpenCollections
from searchbus_vectors.store import CollectionDamaged, CollectionMissing, StorageFull


@pytest.fixture
def collections(tmp_path, monkeypatch):
    """`good` is open, `bad` is damaged, `full` needs space; there is none yet."""
    free = [0]
    monkeypatch.setattr(opening, "find_shards", lambda folder: ["bad", "full", "good"])

    def open_shard(path):
        if path.name == "bad":
            raise CollectionDamaged("bad", "a file is missing")
        if path.name == "full" and not free[0]:
            raise StorageFull("no space")
        return f"shard {path.name}"

    monkeypatch.setattr(opening, "open_shard", open_shard)
    found = OpenCollections(tmp_path, FreeSpace(tmp_path, 1, lambda folder: free[0]))
    found.free = free
    return found


def test_each_collection_is_open_or_set_aside_with_its_reason(collections):
    """Nothing that is damaged is taken for one that does not exist."""
    assert collections.get("good") == "shard good"
    assert collections.damaged == {
        "bad": "a file is missing", "full": "the disk is too full to open it",
    }  # fmt: skip
    with pytest.raises(CollectionDamaged, match="a file is missing"):
        collections.get("bad")
    with pytest.raises(CollectionMissing):
        collections.get("absent")


def test_collection_is_opened_once_there_is_space(collections):
    """It is asked for again until then."""
    with pytest.raises(StorageFull):
        collections.open_again("full")
    assert collections.waits_for_space("full")
    collections.free[0] = 1
    collections.open_again("full")
    assert collections.get("full") == "shard full"
    assert not collections.waits_for_space("full")


def test_open_collection_may_be_damaged_in_part(collections, caplog):
    """The first reason stays, and is logged once; a removed collection may be made again."""
    for reason in ("a page is torn", "another page is torn"):
        collections.mark_damaged(CollectionDamaged("good", reason))
    assert collections.damaged["good"] == "a page is torn"
    assert caplog.text.count("torn") == 1
    assert collections.get("good") == "shard good"
    collections.check("good")
    collections.forget("bad")
    collections.check("bad")
    with pytest.raises(CollectionMissing):
        collections.get("bad")
