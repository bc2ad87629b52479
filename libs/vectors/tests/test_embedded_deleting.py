"""The embedded engine: a collection that is deleted, or replaced, while others use it."""

from __future__ import annotations

import asyncio
import threading
from types import SimpleNamespace

import pytest

from searchbus_vectors import CollectionMissingError, open_store

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
