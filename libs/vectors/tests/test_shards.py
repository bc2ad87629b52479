"""Folders of collections."""

from __future__ import annotations

import pytest

from searchbus_vectors import CollectionDamaged, StorageFull
from searchbus_vectors.shards import (
    create_shard,
    drop_shard,
    engine_faults,
    find_shards,
    open_shard,
)


def test_only_folders_with_content_are_collections(tmp_path):
    """Hidden ones are ours."""
    for name in ("a", ".hidden", "empty"):
        (tmp_path / name).mkdir()
    (tmp_path / "a" / "file").touch()
    (tmp_path / "file").touch()
    assert find_shards(tmp_path) == ["a"]


def test_shard_is_made_opened_and_removed(tmp_path):
    """Its mark is gone when it is complete."""
    path = tmp_path / "c"
    shard = create_shard(path)
    assert (shard.count(), shard.complete) == (0, True)
    shard.engine.close()
    assert find_shards(tmp_path) == ["c"]
    assert [entry.name for entry in tmp_path.iterdir()] == ["c"]
    open_shard(path).engine.close()
    drop_shard(path)
    drop_shard(path)
    assert list(tmp_path.iterdir()) == []


def test_shard_keeps_the_length_of_its_vectors(tmp_path):
    """The index beside the engine is made for it, before and after a restart."""
    shard = create_shard(tmp_path / "c", 8)
    assert shard.nearest.dimensions == 8
    shard.engine.flush()
    shard.engine.close()
    again = open_shard(tmp_path / "c")
    assert again.nearest.dimensions == 8
    again.engine.close()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Service runtime error: No space left on device (os error 28)", StorageFull),
        ("Service runtime error: failed to load segment", CollectionDamaged),
    ],
)
def test_failures_of_the_engine_get_types(text, expected):
    """It raises bare exceptions."""
    with pytest.raises(expected), engine_faults("c"):
        raise Exception(text)


@pytest.mark.parametrize(
    "error", [ValueError("no UUID"), Exception("Validation error"), KeyError()]
)
def test_other_errors_pass(error):
    """Faults of a request are not damage."""
    with pytest.raises(type(error)) as raised, engine_faults("c"):
        raise error
    assert raised.value is error


def test_full_disk_of_our_own_files_is_typed_too():
    """Not only the engine writes."""
    with pytest.raises(StorageFull), engine_faults("c"):
        raise OSError(28, "No space left on device")
