"""bge-small-en-v1.5 (dense) and BM25 (sparse), computed outside of the event loop.

All threads share one ONNX session with one intra-op thread; the executors give the parallelism.
Queries have their own thread and document threads have a lower priority (nice 10), so that a query
takes a few milliseconds while an ingest uses every core.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

from .bm25 import document_vector, query_vector
from .embedder import Embedder
from .model_files import MODEL_NAME, resolve_model
from .vectors import QueryVectors, Vector, Vectors

if TYPE_CHECKING:
    from .dense_model import DenseModel

__all__ = ["ModelEmbedder"]

QUERY_PREFIX = "Represent this sentence for searching relevant passages: "
"""bge's instruction for queries; it adds .006 to .034 nDCG."""
BATCH_SIZE = 16
"""With batches of 256, unsorted, padding reduced the rate to 10-19 documents/s."""


class ModelEmbedder(Embedder):
    """The loaded model. `load` makes it."""

    model = MODEL_NAME

    def __init__(self, dense: DenseModel, document_threads: int, query_threads: int = 1) -> None:
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
        allow_download: bool = False,
        document_threads: int | None = None,
        query_threads: int = 1,
    ) -> ModelEmbedder:
        """Import the runtime and load the model.

        Args:
            folder: model folder, see `resolve_model`.
            document_threads: threads for documents; `None` means one per core.
            query_threads: how many queries may be embedded at the same time.

        Raises:
            ModelNotFound: with what to do.
        """
        threads = document_threads or os.cpu_count() or 1
        return await asyncio.to_thread(cls._load, folder, allow_download, threads, query_threads)

    @classmethod
    def _load(
        cls, folder: Path | None, allow_download: bool, threads: int, query_threads: int
    ) -> ModelEmbedder:
        # onnxruntime sends usage data to its vendor unless this is set.
        os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
        # Imported here: fastembed takes a while, and the event loop goes on meanwhile.
        from .dense_model import DenseModel

        dense = DenseModel(resolve_model(folder, allow_download=allow_download))
        dense.embed(["warm up"])
        return cls(dense, threads, query_threads)

    async def close(self) -> None:
        """Wait for running batches and free the threads."""
        self._query_pool.shutdown(wait=False, cancel_futures=True)
        await asyncio.to_thread(self._document_pool.shutdown, wait=True, cancel_futures=True)

    async def _embed_query(self, text: str) -> QueryVectors:
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._query_pool, self._query, text)

    async def _embed_documents(self, texts: Sequence[str]) -> list[Vectors]:
        """A passage of more than 512 tokens counts by its first 512."""
        loop = asyncio.get_running_loop()
        # Texts of similar length go into one batch: less padding.
        order = sorted(range(len(texts)), key=lambda i: len(texts[i]))
        batches = [order[i : i + BATCH_SIZE] for i in range(0, len(order), BATCH_SIZE)]
        done = await asyncio.gather(
            *(
                loop.run_in_executor(
                    self._document_pool, self._documents, [texts[i] for i in batch]
                )
                for batch in batches
            )
        )
        by_position = dict(
            pair for batch, vectors in zip(batches, done, strict=True)
            for pair in zip(batch, vectors, strict=True)
        )  # fmt: skip
        return [by_position[i] for i in range(len(texts))]

    async def _embed_short(self, texts: Sequence[str], urgent: bool) -> list[Vector]:
        """Each text runs alone: the int8 model scales activations over a batch.

        Together with others a vector changes (cosine .993 to 1), and replicas could not agree on
        an order.
        """
        pool = self._query_pool if urgent else self._document_pool
        loop = asyncio.get_running_loop()
        return list(
            await asyncio.gather(
                *(loop.run_in_executor(pool, self._one_text, text) for text in texts)
            )
        )

    def _query(self, text: str) -> QueryVectors:
        dense = self._dense.embed([QUERY_PREFIX + text])[0].tolist()
        return QueryVectors(dense, query_vector(text))

    def _one_text(self, text: str) -> Vector:
        vector: Vector = self._dense.embed([text])[0]
        return vector

    def _documents(self, texts: list[str]) -> list[Vectors]:
        dense = self._dense.embed(texts).tolist()
        return [
            Vectors(vector, document_vector(text))
            for vector, text in zip(dense, texts, strict=True)
        ]


def _lower_priority() -> None:
    try:
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), 10)
    except (OSError, AttributeError):
        pass
