"""A model (dense; bge-small by default) and BM25 (sparse), computed outside of the event loop.

All threads share one ONNX session with one intra-op thread; the executors give the parallelism.
Queries have their own threads and document threads have a lower priority (nice 10), so that a query
takes a few milliseconds while an ingest uses every core.

Each text runs alone, for two reasons. A batch is slower: its activations do not fit into the cache
of a core (16 passages of 256 tokens cost 1.9 times the CPU time of 16 runs), and shorter texts are
padded. And the int8 model scales activations over a batch, so a vector would depend on the texts
beside it (cosine .991 to .997), and replicas could not agree on an order.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from .bm25 import document_vector, query_vector
from .embedder import Embedder
from .model_files import MODEL_NAME
from .models import MULTILINGUAL, Model, model_of, resolve_folder
from .multilingual import shared_multilingual_model
from .points import Match
from .vectors import QueryVectors, Sparse, Vector, Vectors

__all__ = ["ModelEmbedder"]

T = TypeVar("T")


class _Dense(Protocol):
    """A loaded model: DenseModel or MultilingualModel."""

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """One row of unit length for each text."""

    def is_word(self, word: str) -> bool:
        """Whether the model knows the word as a whole."""


class ModelEmbedder(Embedder):
    """A loaded model. `load` makes it."""

    def __init__(
        self, model: Model, dense: _Dense, document_threads: int, query_threads: int
    ) -> None:
        self.model = model.name
        self.dimensions = model.dimensions
        self.query_prefix = model.query_prefix
        self.sure_cosine = None if model.sure is None else model.comparable(model.sure)
        self._known = model
        self._dense = dense
        self._query_pool = ThreadPoolExecutor(query_threads, thread_name_prefix="embed-query")
        self._document_pool = ThreadPoolExecutor(
            document_threads, thread_name_prefix="embed-documents", initializer=_lower_priority
        )

    @classmethod
    async def load(
        cls,
        folder: Path | None = None,
        *,
        name: str = MODEL_NAME,
        allow_download: bool = False,
        document_threads: int | None = None,
        query_threads: int | None = None,
    ) -> ModelEmbedder:
        """Import the runtime and load the model.

        Args:
            folder: model folder, see `resolve_model`.
            name: of the model, see `model_of`.
            document_threads: threads for documents; `None` means one per core.
            query_threads: how many queries may be embedded at the same time; `None` means one
                per core.

        Raises:
            ModelNotFound: with what to do.
        """
        cores = os.cpu_count() or 1
        return await asyncio.to_thread(
            cls._load, folder, name, allow_download, document_threads or cores,
            query_threads or cores,
        )  # fmt: skip

    @classmethod
    def _load(
        cls,
        folder: Path | None,
        name: str,
        allow_download: bool,
        threads: int,
        query_threads: int,
    ) -> ModelEmbedder:
        # onnxruntime sends usage data to its vendor unless this is set.
        os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
        # Imported here: fastembed takes a while, and the event loop goes on meanwhile.
        from .dense_model import shared_model

        model = model_of(name)
        dense: _Dense
        if name == MULTILINGUAL and folder is None:
            dense = shared_multilingual_model()
        else:
            dense = shared_model(resolve_folder(model, folder, allow_download=allow_download), name)
        dense.embed(["warm up"])
        return cls(model, dense, threads, query_threads)

    def comparable(self, matches: list[Match]) -> list[Match]:
        """See Embedder; a model without a measured scale is taken to have the default one's."""
        if self._known.sure is None:
            return matches
        return [replace(m, cosine=self._known.comparable(m.cosine)) for m in matches]

    def words(self, text: str) -> Sparse:
        """BM25's share of a query, as `embed_query` has it."""
        return query_vector(text)

    def is_word(self, word: str) -> bool:
        """See Embedder."""
        return self._dense.is_word(word)

    async def close(self) -> None:
        """Wait for running batches and free the threads."""
        self._query_pool.shutdown(wait=False, cancel_futures=True)
        await asyncio.to_thread(self._document_pool.shutdown, wait=True, cancel_futures=True)

    async def _embed_query(self, text: str) -> QueryVectors:
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._query_pool, self._query, text)

    async def _embed_documents(self, texts: Sequence[str]) -> list[Vectors]:
        """A passage of more than 512 tokens counts by its first 512."""
        return await self._each(self._document_pool, self._document, texts)

    async def _embed_short(self, texts: Sequence[str], urgent: bool) -> list[Vector]:
        pool = self._query_pool if urgent else self._document_pool
        return await self._each(pool, self._one_text, texts)

    async def _each(
        self, pool: ThreadPoolExecutor, embed: Callable[[str], T], texts: Sequence[str]
    ) -> list[T]:
        """One result for each text, in order. Texts that wait are dropped on cancellation."""
        loop = asyncio.get_running_loop()
        return list(await asyncio.gather(*(loop.run_in_executor(pool, embed, t) for t in texts)))

    def _query(self, text: str) -> QueryVectors:
        dense = self._dense.embed([self.query_prefix + text])[0].tolist()
        return QueryVectors(dense, query_vector(text))

    def _one_text(self, text: str) -> Vector:
        vector: Vector = self._dense.embed([text])[0]
        return vector

    def _document(self, text: str) -> Vectors:
        dense = self._dense.embed([self._known.passage_prefix + text])[0]
        return Vectors(dense.tolist(), document_vector(text))


def _lower_priority() -> None:
    try:
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), 10)
    except (OSError, AttributeError):
        pass
