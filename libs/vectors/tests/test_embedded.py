"""The embedded engine alone: its files, its lock, its index in the background."""

from __future__ import annotations

import asyncio
import os
import random
import subprocess
import sys
import textwrap

import pytest

from searchbus_vectors import Equals, Point, Sparse, StoreLocked, Vectors, open_store
from searchbus_vectors.embedded import EmbeddedStore

from .conftest import FIELDS, point, query, uid


async def test_embedded_store_survives_being_reopened(tmp_path):
    """What was stored, and the indexes, are there after close and open."""
    store = await open_store(folder=tmp_path)
    await store.ensure_collection("c", FIELDS)
    await store.upsert("c", [point(1, kind="a"), point(2, kind="b")])
    await store.close()
    store = await open_store(folder=tmp_path)
    assert await store.count("c", Equals("kind", "b")) == 1
    assert (await store.search("c", query(1, 1001), limit=1))[0].payload["n"] == 1
    await store.close()


async def test_second_owner_of_a_folder_is_refused_by_name(tmp_path):
    """The error names the process that has it."""
    store = await open_store(folder=tmp_path)
    with pytest.raises(StoreLocked, match=str(os.getpid())):
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


async def test_background_index_keeps_the_answers(tmp_path):
    """Past the size the HNSW index is built, and searches go on meanwhile and afterwards."""
    store = EmbeddedStore(tmp_path, hnsw_from_points=1500)
    await store.ensure_collection("c", FIELDS)
    rng = random.Random(1)

    def clustered(number: int) -> Point:
        dense = [rng.gauss(0, 0.05) for _ in range(384)]
        dense[number % 300] += 1.0
        return Point(uid(number), {"n": number}, Vectors(dense, Sparse([number], [1.0])))

    for start in range(1, 2001, 250):
        await store.upsert("c", [clustered(i) for i in range(start, start + 250)])
        hit = (await store.search("c", query(5, 5), limit=1))[0]
        assert hit.payload["n"] % 300 == 5
    await asyncio.gather(*store._optimizing.values())
    info = store._shards["c"].info()
    assert info.points_count == 2000
    hits = await store.search("c", query(5, 5), limit=3)
    assert hits[0].payload["n"] == 5
    await store.close()


async def test_incomplete_files_of_a_crash_are_removed(tmp_path):
    """A collection that was being created or dropped can be created again."""
    (tmp_path / "c").mkdir()
    (tmp_path / "c" / "junk").write_text("x")
    (tmp_path / ".dropped-d").mkdir()
    store = await open_store(folder=tmp_path)
    assert await store.collections() == []
    assert not (tmp_path / ".dropped-d").exists()
    await store.ensure_collection("c", FIELDS)
    assert await store.count("c") == 0
    await store.close()
