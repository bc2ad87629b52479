"""The index of the nearest vectors: built again after a crash, and when most of it is gone."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace

import pytest

from searchbus_vectors.nearest import NearestIndex
from searchbus_vectors.points import DENSE
from searchbus_vectors.rebuilds import Rebuilds


class Engine:
    """Pages of points, some of which have no vector."""

    def __init__(self, pages: int) -> None:
        self.pages = pages
        self.read = 0

    def scroll(self, request):
        self.read += 1
        first = (request.offset or 0) * 2
        records = [
            SimpleNamespace(id=f"{first}", vector={DENSE: [1.0, 0.0]}),
            SimpleNamespace(id=f"{first + 1}", vector=None),
        ]
        following = self.read if self.read < self.pages else None
        return records, following


@pytest.fixture
def shard(monkeypatch):
    monkeypatch.setattr(
        "searchbus_vectors.rebuilds.edge.ScrollRequest",
        lambda **fields: SimpleNamespace(**fields),
    )
    index = NearestIndex(2)
    return SimpleNamespace(name="c", nearest=index, engine=Engine(3), complete=False)


async def write(name, step):
    await asyncio.sleep(0)
    return step()


async def test_every_vector_is_added_once(shard):
    """Those that were written meanwhile stay as they are; a second start does nothing."""
    rebuilds = Rebuilds(write)
    rebuilds.start(shard)
    rebuilds.start(shard)
    await asyncio.sleep(0)
    shard.nearest.add(["2"], [[0.0, 1.0]])
    await rebuilds.wait()
    assert shard.complete
    assert shard.engine.read == 3
    assert len(shard.nearest) == 3
    assert shard.nearest.search([0.0, 1.0], 1) == ["2"]


async def test_index_is_built_as_often_as_it_is_asked_for(shard):
    """Each time anew: what is gone in the old one is not in the new one."""
    rebuilds = Rebuilds(write)
    for reads in (3, 6):
        shard.nearest.add(["gone"], [[1.0, 0.0]])
        shard.engine.pages = reads
        rebuilds.start(shard)
        await rebuilds.wait()
        assert shard.engine.read == reads
        assert "gone" not in shard.nearest


async def test_failure_is_logged_and_searches_stay_exact(shard, caplog):
    """The index is not complete then."""

    async def failing(name, step):
        raise OSError("the disk is gone")

    rebuilds = Rebuilds(failing)
    rebuilds.start(shard)
    await rebuilds.wait()
    assert not shard.complete
    assert "the index of c could not be built" in caplog.text


async def test_cancelled_building_ends(shard):
    """A store that is closed waits for nothing."""
    rebuilds = Rebuilds(lambda name, step: asyncio.Event().wait())
    rebuilds.start(shard)
    rebuilds.cancel()
    with pytest.raises(asyncio.CancelledError):
        await rebuilds.wait()
    assert not shard.complete
