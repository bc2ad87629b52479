"""The interface of an embedder: text to vectors.

Embedder
├── ModelEmbedder   a model (models.py), bge-small by default   model_embedder.py
└── HashEmbedder    hashed words, no model; for tests           hash_embedder.py
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Sequence

from cachetools import LRUCache
from opentelemetry import trace

from .points import DIMENSIONS, Match, QueryVectors, Sparse, Vector, Vectors

_tracer = trace.get_tracer("searchbus.vectors")


class Embedder(ABC):
    """Embeds queries, passages and short texts. Belongs to no event loop.

    `model` names what made a vector. Vectors of different models must not be compared; `comparable`
    brings the cosines of matches to the scale of the default model. `dimensions` is the length of
    the dense vectors.
    `sure_cosine` is the `comparable` cosine from which on a passage matches a question in another
    language; None where the model knows one language only.
    `query_prefix` is the model's instruction before a query; `embed_query` adds it, `embed_short`
    does not.
    """

    model: str
    dimensions: int = DIMENSIONS
    sure_cosine: float | None = None
    query_prefix: str = ""

    def comparable(self, matches: list[Match]) -> list[Match]:
        """Matches of a search with this model, their cosines on the scale of the default one."""
        return matches

    async def embed_query(self, text: str) -> QueryVectors:
        """Embed one search query."""
        with _tracer.start_as_current_span("embed query"):
            return await self._embed_query(text)

    async def embed_documents(self, texts: Sequence[str]) -> list[Vectors]:
        """Embed passages; one result for each text, in the same order."""
        with _tracer.start_as_current_span("embed documents", attributes={"texts": len(texts)}):
            return await self._embed_documents(texts)

    async def embed_short(self, texts: Sequence[str], *, urgent: bool) -> list[Vector]:
        """Embed short texts (names, descriptions, questions), each by itself: dense vectors only.
        `urgent`: a caller waits, so that it must not queue behind documents."""
        name = "embed query" if urgent else "embed documents"
        with _tracer.start_as_current_span(name, attributes={"texts": len(texts)}):
            return await self._embed_short(texts, urgent)

    def is_word(self, word: str) -> bool:
        """Whether the model knows the word as a whole, so that it is hardly misspelt."""
        return False

    @abstractmethod
    def words(self, text: str) -> Sparse:
        """The words of a query: the sparse part of its vectors, which needs no model."""

    @abstractmethod
    async def close(self) -> None:
        """Wait for running batches and free the threads."""

    @abstractmethod
    async def _embed_query(self, text: str) -> QueryVectors: ...

    @abstractmethod
    async def _embed_documents(self, texts: Sequence[str]) -> list[Vectors]: ...

    @abstractmethod
    async def _embed_short(self, texts: Sequence[str], urgent: bool) -> list[Vector]: ...


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
