"""The index is built again in steps, from what the engine has."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace

import numpy as np
import pytest

from searchbus_vectors.embedded_types import DENSE
from searchbus_vectors.nearest import NearestIndex
from searchbus_vectors.rebuilding import Rebuilds


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
        "searchbus_vectors.rebuilding.edge.ScrollRequest",
        lambda **fields: SimpleNamespace(**fields),
    )
    index = NearestIndex(2)
    return SimpleNamespace(name="c", nearest=index, engine=Engine(3), complete=False)


async def write(name, step):
    await asyncio.sleep(0)
    return step()


async def test_every_vector_is_added_once(shard):
    """Those that were written meanwhile stay as they are; a second start does nothing."""
    shard.nearest.add(["2"], [np.array([0.0, 1.0], dtype=np.float32)])
    rebuilds = Rebuilds(write)
    rebuilds.start(shard)
    rebuilds.start(shard)
    await rebuilds.wait()
    assert shard.complete
    assert shard.engine.read == 3
    assert len(shard.nearest) == 3


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
