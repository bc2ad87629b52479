"""Keeps the vectors of the latest queries; equal queries at the same time are embedded once.

    queries = QueryCache(embedder)
    vectors = await queries.embed("why did rates rise?")

A search over ten collections, or the next page of an agent, asks for the same vectors again, which
cost most of a search. Queries are not put into one batch: see model_embedder.py.
"""

from __future__ import annotations

import asyncio

from cachetools import LRUCache

from .embedder import Embedder
from .vectors import QueryVectors

__all__ = ["QueryCache"]

_KEPT = 512


class QueryCache:
    """Belongs to one event loop. Failures are raised for all who wait and are not kept."""

    def __init__(self, embedder: Embedder, *, kept: int = _KEPT) -> None:
        self.embedder = embedder
        self._tasks: LRUCache[str, asyncio.Task[QueryVectors]] = LRUCache(kept)
        self._waiting: dict[asyncio.Task[QueryVectors], int] = {}

    async def embed(self, text: str) -> QueryVectors:
        """The vectors of a query; raises what the embedder raises."""
        task = self._tasks.get(text)
        if task is None:
            task = asyncio.get_running_loop().create_task(self.embedder.embed_query(text))
            self._tasks[text] = task
        elif task.done():
            return task.result()
        self._waiting[task] = self._waiting.get(task, 0) + 1
        try:
            # Shielded: if the first caller is cancelled, the others still need the vectors.
            return await asyncio.shield(task)
        finally:
            self._leave(text, task)

    def _leave(self, text: str, task: asyncio.Task[QueryVectors]) -> None:
        self._waiting[task] -= 1
        if self._waiting[task]:
            return
        del self._waiting[task]
        if not task.done():
            task.cancel()  # nobody waits any more: its place in the queue is free
        if (not task.done() or task.cancelled() or task.exception()) and (
            self._tasks.get(text) is task
        ):
            del self._tasks[text]
