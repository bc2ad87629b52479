"""Indexes of the nearest vectors that are built again while the store is in use."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any, cast

import qdrant_edge as edge

from .nearest import NearestIndex
from .points import DENSE
from .shards import Shard

log = logging.getLogger("searchbus.vectors")

_READ_AT_ONCE = 250


class Rebuilds:
    """Builds indexes again from the engine, after a crash and when they are worn: in small steps of
    the writing thread (`write`), so that writes take their turn; searches are exact meanwhile."""

    def __init__(self, write: Callable[[Shard, Callable[[], Any]], Awaitable[Any]]) -> None:
        self._write = write
        self._tasks: dict[str, asyncio.Task[None]] = {}

    def start(self, shard: Shard) -> None:
        """Build the index of a collection, unless that is being done or has failed."""
        if shard.name not in self._tasks:
            task = asyncio.get_running_loop().create_task(self._rebuild(shard))
            self._tasks[shard.name] = task

    def forget(self, name: str) -> None:
        """Stop building the index of a collection, which may be started anew."""
        task = self._tasks.pop(name, None)
        if task is not None:
            task.cancel()

    async def wait(self) -> None:
        """Return when those that were started have ended."""
        await asyncio.gather(*self._tasks.values())

    def cancel(self) -> None:
        """Stop building."""
        for task in self._tasks.values():
            task.cancel()

    async def _rebuild(self, shard: Shard) -> None:
        name, index = shard.name, NearestIndex(shard.nearest.dimensions)
        shard.complete, shard.nearest = False, index
        start_id: Any = None

        def step() -> Any:
            request = edge.ScrollRequest(
                offset=start_id, limit=_READ_AT_ONCE, with_payload=False, with_vector=[DENSE]
            )
            records, following = shard.engine.scroll(request)
            found = [(str(r.id), cast(dict[str, list[float]], r.vector or {})) for r in records]
            # Some points have no vector; others were written meanwhile.
            new = [(i, vector[DENSE]) for i, vector in found if DENSE in vector and i not in index]
            index.add([i for i, _ in new], [dense for _, dense in new])
            return following

        try:
            while (start_id := await self._write(shard, step)) is not None:
                pass
        except Exception:
            log.exception("the index of %s could not be built; its searches stay exact", name)
            return
        shard.complete = True
        del self._tasks[name]
        log.info("the index of %s is built again: %d vectors", name, len(index))
