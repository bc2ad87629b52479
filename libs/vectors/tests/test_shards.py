"""Folders of collections: made, opened, set aside, removed; free space and counts of points."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from searchbus_vectors.shards import (
    TO_END,
    FreeSpace,
    OpenCollections,
    PointCount,
    create_shard,
    drop_shard,
    engine_faults,
    find_shards,
    free_bytes_of,
    open_shard,
)
from searchbus_vectors.store import CollectionDamagedError, CollectionMissingError, StorageFullError


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
        ("Service runtime error: No space left on device (os error 28)", StorageFullError),
        ("Service runtime error: failed to load segment", CollectionDamagedError),
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
    with pytest.raises(StorageFullError), engine_faults("c"):
        raise OSError(28, "No space left on device")


MIB = 2**20


@pytest.mark.parametrize(
    ("free_mib", "may_begin", "may_end"),
    [(64, True, True), (63, False, True), (16, False, True), (15, False, False)],
)
def test_a_quarter_is_kept_for_what_was_begun(tmp_path, free_mib, may_begin, may_end):
    """The refusal says how much is free, and how much is needed."""
    space = FreeSpace(tmp_path, 64 * MIB, lambda folder: free_mib * MIB)
    for check, allowed in ((space.check, may_begin), (lambda: space.check(TO_END), may_end)):
        if allowed:
            check()
            continue
        with pytest.raises(StorageFullError, match=f"{free_mib} MiB are free .* 64 MiB are needed"):
            check()


def test_free_space_is_that_of_the_disk(tmp_path):
    """Of a folder that exists."""
    assert free_bytes_of(tmp_path) > 0


def test_number_follows_and_is_there_after_a_restart(tmp_path):
    """It never rises before a write nor falls behind a deletion."""
    count = PointCount(tmp_path)
    assert count.least == 0
    count.raise_to(60)
    count.raise_to(40)
    assert PointCount(tmp_path).least == 60
    count.lower_to(58)
    count.lower_to(70)
    assert PointCount(tmp_path).least == 58


def test_lower_number_is_on_disk_before_anything_is_deleted(tmp_path, monkeypatch):
    """Where it cannot be written, the caller must not delete."""
    count = PointCount(tmp_path)
    count.raise_to(60)

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        count.lower_to(58)
    assert PointCount(tmp_path).least == 60


def test_number_that_cannot_be_raised_stays_true(tmp_path, monkeypatch, caplog):
    """The document is stored; the log says what is missing."""
    count = PointCount(tmp_path)

    def full(self: Path, mode: str) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "open", full)
    count.raise_to(60)
    assert "No space left" in caplog.text
    assert PointCount(tmp_path).least == 0


@pytest.mark.parametrize("content", ["", "{}", "[]", '{"points": "many"}'])
def test_damaged_number_is_none(tmp_path, content):
    """It is written anew with the next points."""
    (tmp_path / "points.json").write_text(content)
    count = PointCount(tmp_path)
    assert count.least == 0
    count.raise_to(3)
    assert json.loads((tmp_path / "points.json").read_text()) == {"points": 3}


@pytest.fixture
def collections(tmp_path, monkeypatch):
    """`good` is open, `bad` is damaged, `full` needs space; there is none yet."""
    free = [0]
    monkeypatch.setattr(
        "searchbus_vectors.shards.find_shards", lambda folder: ["bad", "full", "good"]
    )

    def open_shard(path):
        if path.name == "bad":
            raise CollectionDamagedError("bad", "a file is missing")
        if path.name == "full" and not free[0]:
            raise StorageFullError("no space")
        return f"shard {path.name}"

    monkeypatch.setattr("searchbus_vectors.shards.open_shard", open_shard)
    found = OpenCollections(tmp_path, FreeSpace(tmp_path, 1, lambda folder: free[0]))
    found.free = free
    return found


def test_each_collection_is_open_or_set_aside_with_its_reason(collections):
    """Nothing that is damaged is taken for one that does not exist."""
    assert collections.get("good") == "shard good"
    assert collections.damaged == {
        "bad": "a file is missing", "full": "the disk is too full to open it",
    }  # fmt: skip
    with pytest.raises(CollectionDamagedError, match="a file is missing"):
        collections.get("bad")
    with pytest.raises(CollectionMissingError):
        collections.get("absent")


def test_collection_is_opened_once_there_is_space(collections):
    """It is asked for again until then."""
    with pytest.raises(StorageFullError):
        collections.open_again("full")
    assert collections.waits_for_space("full")
    collections.free[0] = 1
    collections.open_again("full")
    assert collections.get("full") == "shard full"
    assert not collections.waits_for_space("full")


def test_open_collection_may_be_damaged_in_part(collections, caplog):
    """The first reason stays, and is logged once; a removed collection may be made again."""
    for reason in ("a page is torn", "another page is torn"):
        collections.mark_damaged(CollectionDamagedError("good", reason))
    assert collections.damaged["good"] == "a page is torn"
    assert caplog.text.count("torn") == 1
    assert collections.get("good") == "shard good"
    collections.check("good")
    collections.forget("bad")
    collections.check("bad")
    with pytest.raises(CollectionMissingError):
        collections.get("bad")


@pytest.mark.parametrize("crashed", ["marked", "dropped", "renamed"])
def test_renaming_that_a_crash_cut_off_is_ended(tmp_path, crashed):
    """At the next start, from any of its steps."""
    for name, dimensions in (("c", 8), ("c~next", 16)):
        create_shard(tmp_path / name, dimensions).engine.close()
    (tmp_path / ".to-c,c~next").touch()
    if crashed in ("dropped", "renamed"):
        (tmp_path / "c").rename(tmp_path / ".dropped-c")
    if crashed == "renamed":
        (tmp_path / "c~next").rename(tmp_path / "c")
    assert find_shards(tmp_path) == ["c"]
    assert [entry.name for entry in tmp_path.iterdir()] == ["c"]
    assert open_shard(tmp_path / "c").nearest.dimensions == 16
