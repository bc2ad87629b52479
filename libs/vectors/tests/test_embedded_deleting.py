"""The embedded engine: a collection that is deleted, or replaced, while others use it."""

from __future__ import annotations

import asyncio
import threading
from types import SimpleNamespace

import pytest

from searchbus_vectors import CollectionMissingError, open_store
from searchbus_vectors.nearest import NearestIndex

from .conftest import FIELDS, point


class Slow:
    """An engine whose `count` waits before it reads; `close` fails meanwhile, as the binding's."""

    def __init__(self, engine, *, inside: bool) -> None:
        self.engine, self.inside = engine, inside
        self.reached, self.go_on = threading.Event(), threading.Event()

    def __getattr__(self, name):
        return getattr(self.engine, name)

    def count(self, request):
        self.reached.set()
        self.go_on.wait()
        self.inside = False
        return self.engine.count(request)

    def close(self):
        if self.inside:
            self.go_on.set()
            raise RuntimeError("Already borrowed")
        self.engine.close()


@pytest.mark.parametrize("inside", [True, False])
async def test_collection_is_deleted_while_it_is_read(tmp_path, inside):
    """Whoever reads it reads to the end; nothing of it is left, and its name is free."""
    store = await open_store(folder=tmp_path)
    await store.ensure_collection("c", FIELDS)
    await store.upsert("c", [point(1, kind="a"), point(2, kind="b")])
    shard = store._collections.shards["c"]
    slow = shard.engine = Slow(shard.engine, inside=inside)
    counting = asyncio.create_task(store.count("c"))
    await asyncio.to_thread(slow.reached.wait)
    try:
        await store.drop_collection("c")
    finally:
        slow.go_on.set()
    assert await counting == 2
    assert (await store.collections(), dict(store.damaged)) == ([], {})
    assert [path.name for path in tmp_path.iterdir()] == [".owner"]
    await store.ensure_collection("c", FIELDS)
    assert await store.count("c") == 0
    await store.close()


async def test_collection_is_closed_when_its_last_reader_has_left(tmp_path):
    """As where it takes another one's place, or the service stops."""
    store = await open_store(folder=tmp_path)
    await store.ensure_collection("new", FIELDS)
    await store.upsert("new", [point(1, kind="a")])
    shard = store._collections.shards["new"]
    slow = shard.engine = Slow(shard.engine, inside=True)
    counting = asyncio.create_task(store.count("new"))
    await asyncio.to_thread(slow.reached.wait)
    try:
        await store.rename_collection("new", "c")
    finally:
        slow.go_on.set()
    await counting
    assert (await store.collections(), await store.count("c")) == (["c"], 1)
    await store.close()


async def test_collection_that_takes_a_place_is_read_until_it_is_closed(tmp_path, monkeypatch):
    """Its index may take seconds to write: nobody finds a closed engine meanwhile."""
    store = await open_store(folder=tmp_path)
    await store.ensure_collection("new", FIELDS)
    await store.upsert("new", [point(1, kind="a")])
    loop, save, found = asyncio.get_running_loop(), NearestIndex.save, []

    def slow(index, folder):
        reading = asyncio.run_coroutine_threadsafe(store.count("new"), loop)
        found.append(reading.exception() or reading.result())
        save(index, folder)

    monkeypatch.setattr(NearestIndex, "save", slow)
    await store.rename_collection("new", "c")
    monkeypatch.undo()
    assert (found, dict(store.damaged)) == ([1], {})
    await store.ensure_collection("new", FIELDS)
    await store.close()


async def test_collection_whose_index_cannot_be_written_stays_open(tmp_path, monkeypatch):
    """It takes no place, and can be read and take it later."""
    store = await open_store(folder=tmp_path)
    await store.ensure_collection("new", FIELDS)
    await store.upsert("new", [point(1, kind="a")])

    def full(index, folder):
        raise OSError("the disk is full")

    monkeypatch.setattr(NearestIndex, "save", full)
    with pytest.raises(OSError, match="full"):
        await store.rename_collection("new", "c")
    monkeypatch.undo()
    assert await store.count("new") == 1
    await store.rename_collection("new", "c")
    assert (await store.count("c"), dict(store.damaged)) == (1, {})
    await store.close()


async def test_index_of_a_collection_that_takes_a_place_is_built_no_further(tmp_path):
    """A search began that while the other waited for its turn."""
    store = await open_store(folder=tmp_path)
    await store.ensure_collection("new", FIELDS)
    shard, go_on = store._collections.shards["new"], threading.Event()
    shard.complete = False
    holding = asyncio.create_task(store._write("new", go_on.wait))
    renaming = asyncio.create_task(store.rename_collection("new", "c"))
    await asyncio.sleep(0)  # both have their turn
    assert store._index(shard) is None
    await asyncio.sleep(0)
    go_on.set()
    await asyncio.gather(holding, renaming)
    await store._write("c", lambda: None)  # what was queued before has ended
    assert (dict(store.damaged), store._rebuilds._tasks) == ({}, {})
    await store.ensure_collection("new", FIELDS)
    await store.close()


async def test_damage_that_a_late_reader_finds_is_not_that_of_a_new_collection(tmp_path):
    """The collection that was read is deleted, and another one has its name."""
    store = await open_store(folder=tmp_path)
    await store.ensure_collection("c", FIELDS)
    shard = store._collections.shards["c"]
    slow = shard.engine = Slow(SimpleNamespace(count=panic, close=lambda: None), inside=False)
    counting = asyncio.create_task(store.count("c"))
    await asyncio.to_thread(slow.reached.wait)
    await store.drop_collection("c")
    slow.go_on.set()
    with pytest.raises(CollectionMissingError):
        await counting
    assert dict(store.damaged) == {}
    await store.ensure_collection("c", FIELDS)
    await store.close()


def panic(request):
    raise Exception("Service runtime error: a page cannot be read")


async def test_write_that_waits_while_its_collection_is_deleted_is_refused(tmp_path):
    """It would be acknowledged, and be in no file."""
    store = await open_store(folder=tmp_path)
    await store.ensure_collection("c", FIELDS)
    go_on = threading.Event()
    writes = [
        asyncio.create_task(write)
        for write in (
            store._write("c", go_on.wait),
            store.drop_collection("c"),
            store.upsert("c", [point(1, kind="a")]),
        )
    ]
    await asyncio.sleep(0)  # each has its turn
    go_on.set()
    *_, stored = await asyncio.gather(*writes, return_exceptions=True)
    assert isinstance(stored, CollectionMissingError)
    assert (await store.collections(), dict(store.damaged)) == ([], {})
    await store.close()
