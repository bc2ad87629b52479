"""The embedded engine: crashes, full disks, damaged files, and the index that is built again."""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import sys
import textwrap
import uuid

import pytest
import qdrant_edge as edge

from searchbus_vectors import (
    CollectionDamagedError,
    Equals,
    IsIn,
    Point,
    Sparse,
    StorageFullError,
    StoreLockedError,
    Vectors,
    open_store,
)
from searchbus_vectors.embedded import EmbeddedStore

from .conftest import FIELDS, point, query, search, uid


async def test_embedded_store_survives_being_reopened(tmp_path):
    """What was stored, and the indexes, are there after close and open."""
    store = await open_store(folder=tmp_path)
    await store.ensure_collection("c", FIELDS)
    await store.upsert("c", [point(1, kind="a"), point(2, kind="b")])
    await store.close()
    store = await open_store(folder=tmp_path)
    assert await store.count("c", Equals("kind", "b")) == 1
    assert (await search(store, "c", query(1, 1001), limit=1))[0].payload["n"] == 1
    await store.close()


async def test_second_owner_of_a_folder_is_refused_by_name(tmp_path):
    """The error names the process that has it."""
    store = await open_store(folder=tmp_path)
    with pytest.raises(StoreLockedError, match=str(os.getpid())):
        await open_store(folder=tmp_path)
    await store.close()
    await (await open_store(folder=tmp_path)).close()


KILLED = textwrap.dedent("""
    import asyncio, sys, uuid
    from pathlib import Path
    from searchbus_vectors import Point, Sparse, Vectors, open_store
    async def main():
        store = await open_store(folder=Path(sys.argv[1]))
        await store.ensure_collection("c", {"kind": "keyword"})
        number = 0
        while True:
            points = []
            for _ in range(50):
                number += 1
                dense = [1.0 if i == number % 384 else 0.0 for i in range(384)]
                points.append(Point(str(uuid.UUID(int=number)), {"n": number, "kind": "a"},
                                    Vectors(dense, Sparse([number], [1.0]))))
            await store.upsert("c", points)
            print(number, flush=True)
    asyncio.run(main())
""")


@pytest.mark.slow
async def test_kill_minus_nine_loses_nothing_that_was_acknowledged(tmp_path):
    """Every upsert that returned is there after kill -9 of its process."""
    process = subprocess.Popen(
        [sys.executable, "-c", KILLED, tmp_path], stdout=subprocess.PIPE, text=True
    )
    acknowledged = 0
    for line in process.stdout:
        acknowledged = int(line)
        if acknowledged >= 2000:
            process.kill()
            break
    process.wait()
    store = await open_store(folder=tmp_path)
    present = await store.count("c", Equals("kind", "a"))
    assert present >= acknowledged
    records = await store.get("c", [uid(i) for i in range(1, acknowledged + 1)])
    assert len(records) == acknowledged
    await store.close()


def clustered(number: int) -> Point:
    """A point near axis `number % 300`; every third is of kind b."""
    rng = random.Random(number)
    dense = [rng.gauss(0, 0.02) for _ in range(384)]
    dense[number % 300] += 1.0
    payload = {"n": number, "kind": "b" if number % 3 == 0 else "a"}
    return Point(uid(number), payload, Vectors(dense, Sparse([number], [1.0])))


async def filled(store: EmbeddedStore, count: int = 2000) -> None:
    await store.ensure_collection("c", FIELDS)
    for start in range(1, count + 1, 250):
        await store.upsert("c", [clustered(i) for i in range(start, start + 250)])


async def nearest(store: EmbeddedStore, axis: int, limit: int = 7, **more) -> list[int]:
    """Numbers of the candidates by meaning."""
    dense, *_ = await store._candidates("c", query(axis), more.get("where"), limit)
    return [uuid.UUID(candidate.id).int for candidate in dense]


async def test_large_collection_is_searched_by_its_index_with_equal_answers(tmp_path):
    """Above `exact_up_to` the index proposes; the candidates and their order are the same."""
    store = EmbeddedStore(tmp_path, exact_up_to=10_000)
    await filled(store)
    assert store._index(store._collections.shards["c"]) is None
    exact = [await nearest(store, axis) for axis in range(20)]
    store._exact_up_to = 100
    assert store._index(store._collections.shards["c"]) is not None
    assert [await nearest(store, axis) for axis in range(20)] == exact
    await store.close()


async def test_filter_that_few_of_the_nearest_pass_still_finds_all(tmp_path):
    """The index proposes by meaning alone; what it misses is searched exactly."""
    store = EmbeddedStore(tmp_path, exact_up_to=100)
    await filled(store)
    found = await nearest(store, 6, 40, where=Equals("kind", "b"))
    assert len(found) == 40
    assert all(number % 3 == 0 for number in found)
    await store.close()


async def test_index_forgets_deleted_points_and_follows_new_vectors(tmp_path):
    """A deleted point is not proposed, and a replaced one by its new vector only."""
    store = EmbeddedStore(tmp_path, exact_up_to=100)
    await filled(store)
    first = (await nearest(store, 5))[0]
    await store.delete("c", Equals("n", first))
    assert first not in await nearest(store, 5)
    moved = Point(uid(1), {"n": 1}, Vectors(clustered(5).vectors.dense, Sparse([1], [1.0])))
    await store.upsert("c", [moved])
    assert 1 in await nearest(store, 5, 8)
    assert 1 not in await nearest(store, 1)
    await store.close()


@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.slow
async def test_index_is_there_after_a_restart(tmp_path, clean):
    """It is read from its file after a clean stop, and built again after a crash."""
    store = EmbeddedStore(tmp_path, exact_up_to=100)
    await filled(store)
    before = await nearest(store, 5)
    await store.close()
    if not clean:
        (tmp_path / "c" / "nearest.ids").unlink()
    store = EmbeddedStore(tmp_path, exact_up_to=100)
    assert (store._index(store._collections.shards["c"]) is not None) == clean
    await store._rebuilds.wait()
    assert len(store._index(store._collections.shards["c"])) == 2000
    assert await nearest(store, 5) == before
    assert not (tmp_path / "c" / "nearest.ids").exists(), "a crash now must not leave an old index"
    await store.close()


async def test_unfinished_folders_of_a_crash_are_removed(tmp_path):
    """A collection that was being created or dropped can be created again."""
    (tmp_path / ".new-c").touch()
    (tmp_path / "c").mkdir()
    (tmp_path / "c" / "junk").write_text("x")
    (tmp_path / ".dropped-d").mkdir()
    store = await open_store(folder=tmp_path)
    assert await store.collections() == []
    assert not (tmp_path / ".dropped-d").exists()
    await store.ensure_collection("c", FIELDS)
    assert await store.count("c") == 0
    await store.close()


async def two_collections(folder) -> None:
    store = await open_store(folder=folder)
    for name in ("bad", "good"):
        await store.ensure_collection(name, FIELDS)
        await store.upsert(name, [point(number, kind="a") for number in range(1, 61)])
    await store.close()


def cut_the_list_of_points(folder) -> None:
    """As a disk fault would: the engine opens it, with half of the points."""
    shutil.rmtree(folder / "wal")
    (path,) = folder.glob("segments/*/mutable_id_tracker.mappings")
    os.truncate(path, path.stat().st_size // 2)


def spoil(folder) -> None:
    (path,) = folder.glob("segments/*/segment.json")
    path.write_text("not JSON")


DAMAGE = {
    "edge_config.json is missing": lambda folder: (folder / "edge_config.json").unlink(),
    "of 60 points": cut_the_list_of_points,
    "the engine reports": spoil,
}


@pytest.mark.parametrize("reason", DAMAGE)
async def test_damaged_collection_is_set_aside_and_the_others_work(tmp_path, reason):
    """Nothing is written into it, and nothing of it is erased; only the user removes it."""
    await two_collections(tmp_path)
    DAMAGE[reason](tmp_path / "bad")
    # The engine applies a journal when it opens a collection, and removes it.
    files = [f for f in (tmp_path / "bad").rglob("*") if not f.name.endswith("journal.dat")]
    store = await open_store(folder=tmp_path)
    assert reason in store.damaged["bad"]
    assert await store.collections() == ["good"]
    assert len(await search(store, "good", query(1, 1001), limit=60)) == 60
    with pytest.raises(CollectionDamagedError, match=reason):
        await search(store, "bad", query(1, 1001), limit=60)
    with pytest.raises(CollectionDamagedError, match=reason):
        await store.ensure_collection("bad", FIELDS)
    assert set(files) <= set((tmp_path / "bad").rglob("*"))
    await store.drop_collection("bad")
    await store.ensure_collection("bad", FIELDS)
    assert (await store.count("bad"), dict(store.damaged)) == (0, {})
    await store.close()


async def test_file_that_cannot_be_read_later_is_named(tmp_path):
    """It opens, and the payloads are found damaged by the first request that needs one."""
    await two_collections(tmp_path)
    (path,) = (tmp_path / "bad").glob("segments/*/payload_storage/page_0.dat")
    path.write_bytes(b"\xff" * 4096 + path.read_bytes()[4096:])
    store = await open_store(folder=tmp_path)
    with pytest.raises(CollectionDamagedError):
        await store.get("bad", [uid(number) for number in range(1, 61)])
    assert list(store.damaged) == ["bad"]
    assert len(await store.get("good", [uid(1), uid(2)])) == 2
    await store.close()


async def test_full_disk_stops_writing_and_not_reading(tmp_path):
    """Whoever frees space can write again; a collection can be removed in any case."""
    free = 100
    store = EmbeddedStore(tmp_path, min_free_bytes=50, free_bytes=lambda folder: free)
    for name in ("a", "b"):
        await store.ensure_collection(name, FIELDS)
        await store.upsert(name, [point(1, kind="a"), point(2, kind="b")])
    free = 49
    for write in (store.upsert("a", [point(3)]), store.ensure_collection("new", FIELDS)):
        with pytest.raises(StorageFullError, match="MiB"):
            await write
    await store.set_payload("a", Equals("kind", "b"), {"kind": "c"})
    free = 12
    for write in (
        store.set_payload("a", Equals("kind", "a"), {"kind": "c"}),
        store.delete("a", Equals("kind", "a")),
    ):
        with pytest.raises(StorageFullError, match="MiB"):
            await write
    assert [hit.id for hit in await search(store, "a", query(1, 1001), limit=1)] == [uid(1)]
    assert await store.count("a") == 2
    await store.drop_collection("b")
    free = 50
    await store.upsert("a", [point(3, kind="c")])
    assert await store.count("a") == 3
    await store.close()


async def test_store_closes_and_opens_on_a_full_disk(tmp_path):
    """Everything that was stored is found."""
    free = 100

    def new_store() -> EmbeddedStore:
        return EmbeddedStore(tmp_path, min_free_bytes=50, free_bytes=lambda folder: free)

    store = new_store()
    await store.ensure_collection("c", FIELDS)
    await store.upsert("c", [point(number, kind="a") for number in range(1, 4)])
    free = 0
    await store.close()
    store = new_store()
    assert await store.count("c", Equals("kind", "a")) == 3
    await store.close()


async def test_collection_that_needs_space_to_open_is_opened_when_there_is_some(
    tmp_path, monkeypatch
):
    """It is set aside, and not taken for a damaged one."""
    await two_collections(tmp_path)
    load = edge.EdgeShard.load

    class Full:
        @staticmethod
        def load(path: str) -> None:
            raise Exception("Service runtime error: No space left on device (os error 28)")

    monkeypatch.setattr(edge, "EdgeShard", Full)
    free = 0
    store = EmbeddedStore(tmp_path, min_free_bytes=50, free_bytes=lambda folder: free)
    assert list(store.damaged) == ["bad", "good"]
    with pytest.raises(StorageFullError):
        await store.count("good")
    free = 100
    monkeypatch.setattr(Full, "load", load)
    assert await store.count("good") == 60
    assert list(store.damaged) == ["bad"]
    monkeypatch.undo()
    await store.close()


async def test_damaged_index_is_built_again(tmp_path):
    """It is beside the documents, and made of them."""
    store = EmbeddedStore(tmp_path, exact_up_to=100)
    await filled(store)
    before = await nearest(store, 5)
    await store.close()
    path = tmp_path / "c" / "nearest.usearch"
    path.write_bytes(path.read_bytes()[:1000])
    store = EmbeddedStore(tmp_path, exact_up_to=100)
    assert store._index(store._collections.shards["c"]) is None
    await store._rebuilds.wait()
    assert await nearest(store, 5) == before
    await store.close()


REPLACED = textwrap.dedent("""
    import asyncio, sys
    from pathlib import Path
    from searchbus_vectors import Equals, Point, Sparse, Vectors
    from searchbus_vectors.embedded import EmbeddedStore
    async def main():
        store = EmbeddedStore(Path(sys.argv[1]))
        await store.ensure_collection("c", {"n": "integer"}, dimensions=2)
        vectors = Vectors([1.0, 0.5], Sparse([1], [1.0]))
        for number in range(1, 1001):
            id = f"00000000-0000-0000-0000-{number:012}"
            await store.upsert("c", [Point(id, {"n": number}, vectors)])
            await store.delete("c", Equals("n", number - 1))
        await store._rebuilds.wait()
        index = store._collections.shards["c"].nearest
        assert index.search([1.0, 0.5], 5) == [id]
        assert len(index._ids) < 200
        await store.close()
    asyncio.run(main())
""")


def test_a_passage_may_be_replaced_a_thousand_times(tmp_path):
    """In a process of its own: one that stands still with Python's lock is ended by its parent."""
    subprocess.run([sys.executable, "-c", REPLACED, tmp_path], check=True, timeout=120)


async def test_ranking_is_exact_when_most_passages_were_replaced(tmp_path):
    """One often, all once, some are deleted; before and after a restart."""
    store = EmbeddedStore(tmp_path, exact_up_to=100)
    await filled(store)

    async def same_as_exact() -> None:
        await store._rebuilds.wait()
        assert store._index(store._collections.shards["c"]) is not None
        found = [await nearest(store, axis, 4) for axis in range(20)]
        store._exact_up_to = 10_000
        assert found == [await nearest(store, axis, 4) for axis in range(20)]
        store._exact_up_to = 100

    async def delete(numbers: range) -> None:
        await store.delete("c", IsIn("n", tuple(numbers)))

    (often, *_) = await nearest(store, 3)
    for _ in range(300):
        await store.upsert("c", [clustered(often)])
    await same_as_exact()
    for start in range(1, 2001, 250):
        numbers = range(start, start + 250)
        await store.upsert("c", [replaced(number) for number in numbers])
        await delete(numbers)
    await same_as_exact()
    await delete(range(10_001, 10_301))
    await same_as_exact()
    await delete(range(10_301, 10_401))
    await store.close()
    store = EmbeddedStore(tmp_path, exact_up_to=100)
    assert store._collections.shards["c"].complete
    await same_as_exact()
    await delete(range(10_401, 10_701))
    await same_as_exact()
    assert await store.count("c") == 1300
    await store.close()


def replaced(number: int) -> Point:
    """The same passage in a new revision."""
    return Point(uid(10_000 + number), {"n": 10_000 + number}, clustered(number).vectors)
