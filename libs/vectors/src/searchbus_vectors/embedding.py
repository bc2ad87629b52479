"""Text to vectors: bge-small (dense) and BM25 (sparse), off the event loop.

    embedder = await Embedder.load()
    query = await embedder.embed_query("why did rates rise?")
    vectors = await embedder.embed_documents(["…", "…"])

One ONNX session with one intra-op thread is shared by all; parallelism comes from the executors.
Queries have a thread of their own, and document threads are niced, so that a query stays quick
while an ingest uses every core.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from opentelemetry import trace

from .models import DIMENSIONS, MODEL_NAME, resolve_model

__all__ = ["Embedder", "QueryVectors", "Sparse", "Vector", "Vectors"]

Vector = NDArray[np.float32]

QUERY_PREFIX = "Represent this sentence for searching relevant passages: "
"""bge's own instruction for queries; worth .006 to .034 nDCG, and not added by fastembed."""
BATCH_SIZE = 16
"""Unsorted batches of 256 (the default) fell to 10-19 documents a second: padding."""
AVERAGE_TOKENS = 120.0
"""BM25's average length for passages of about 1,000 characters without stopwords."""

_STOPWORDS_TEXT = (
    "a about after all also am an and any are as at be because been before being between both but "
    "by can could did do does doing during each for from had has have having he her here hers him "
    "his how i if in into is it its just me more most my no nor not of off on once only or other "
    "our out over own s same she should so some such t than that the their them then there these "
    "they this those through to too under until up very was we were what when where which while "
    "who whom why will with would you your"
)
_STOPWORDS = frozenset(_STOPWORDS_TEXT.split())
_tracer = trace.get_tracer("searchbus.vectors")


@dataclass(frozen=True, slots=True)
class Sparse:
    """A sparse vector: term ids and weights of equal length."""

    indices: list[int]
    values: list[float]


@dataclass(frozen=True, slots=True)
class Vectors:
    """What is stored of a passage: 384 unit-length floats, and BM25 term weights."""

    dense: list[float]
    sparse: Sparse


@dataclass(frozen=True, slots=True)
class QueryVectors:
    """What a query is searched by."""

    dense: list[float]
    sparse: Sparse


class Embedder:
    """The loaded model. Make it with `load`."""

    model = MODEL_NAME
    dimensions = DIMENSIONS

    def __init__(
        self, dense: Any, sparse: Any, document_threads: int, query_threads: int = 1
    ) -> None:
        self._dense = dense
        self._sparse = sparse
        self._query_pool = ThreadPoolExecutor(query_threads, thread_name_prefix="embed-query")
        self._document_pool = ThreadPoolExecutor(
            document_threads, thread_name_prefix="embed-documents", initializer=_be_nice
        )

    @classmethod
    async def load(
        cls,
        folder: Path | None = None,
        *,
        allow_download: bool = False,
        document_threads: int | None = None,
        query_threads: int = 1,
    ) -> Embedder:
        """Load the model once; takes about half a second.

        Args:
            folder: explicit model folder, see `resolve_model`.
            document_threads: cores for documents; all of them by default.
            query_threads: queries embedded at once.

        Raises:
            ModelNotFound: with a sentence that says what to do.
        """
        threads = document_threads or os.cpu_count() or 1
        return await asyncio.to_thread(cls._load, folder, allow_download, threads, query_threads)

    @classmethod
    def _load(
        cls, folder: Path | None, allow_download: bool, threads: int, query_threads: int
    ) -> Embedder:
        # The runtime reports its use to its maker unless told not to.
        os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
        from fastembed import SparseTextEmbedding, TextEmbedding

        where = resolve_model(folder, allow_download=allow_download)
        place: dict[str, Any] = {"specific_model_path": str(where)} if where is not None else {}
        dense = TextEmbedding(MODEL_NAME, threads=1, **place)
        # BM25 has no weights: any existing folder will do as its own.
        sparse = SparseTextEmbedding(
            "Qdrant/bm25",
            specific_model_path=str(where or Path(__file__).parent),
            avg_len=AVERAGE_TOKENS,
            stopwords=set(_STOPWORDS),
        )
        list(dense.embed(["warm up"]))
        return cls(dense, sparse, threads, query_threads)

    async def embed_query(self, text: str) -> QueryVectors:
        """Embed one query; about 2 ms."""
        with _tracer.start_as_current_span("embed query"):
            return await asyncio.get_running_loop().run_in_executor(
                self._query_pool, self._query, text
            )

    async def embed_documents(self, texts: Sequence[str]) -> list[Vectors]:
        """Embed passages, in their order; a passage beyond 512 tokens counts by its beginning."""
        with _tracer.start_as_current_span("embed documents", attributes={"texts": len(texts)}):
            loop = asyncio.get_running_loop()
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

    async def embed_short(self, texts: Sequence[str], *, urgent: bool) -> list[Vector]:
        """Embed short texts (names, descriptions, questions) by meaning alone.

        Each runs by itself: the int8 model scales activations over a batch, so that batch mates
        change a vector (cosine .993 to 1), and replicas could not agree on an order.

        Args:
            urgent: somebody waits for the answer, so it does not queue behind documents.

        Returns:
            One float32 vector of 384 and unit length a text.
        """
        pool = self._query_pool if urgent else self._document_pool
        name = "embed query" if urgent else "embed documents"
        with _tracer.start_as_current_span(name, attributes={"texts": len(texts)}):
            loop = asyncio.get_running_loop()
            jobs = (loop.run_in_executor(pool, self._alone, text) for text in texts)
            return list(await asyncio.gather(*jobs))

    async def close(self) -> None:
        """Let running batches end and free the threads."""
        self._query_pool.shutdown(wait=False, cancel_futures=True)
        await asyncio.to_thread(self._document_pool.shutdown, wait=True, cancel_futures=True)

    def _query(self, text: str) -> QueryVectors:
        dense = next(iter(self._dense.embed([QUERY_PREFIX + text]))).tolist()
        sparse = next(iter(self._sparse.query_embed(text)))
        return QueryVectors(dense, Sparse(sparse.indices.tolist(), sparse.values.tolist()))

    def _alone(self, text: str) -> Vector:
        vector: Vector = next(iter(self._dense.embed([text]))).astype(np.float32)
        return vector

    def _documents(self, texts: list[str]) -> list[Vectors]:
        dense = self._dense.embed(texts, batch_size=BATCH_SIZE)
        return [
            Vectors(d.tolist(), Sparse(s.indices.tolist(), s.values.tolist()))
            for d, s in zip(dense, self._sparse.embed(texts), strict=True)
        ]


def _be_nice() -> None:
    try:
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), 10)
    except (OSError, AttributeError):
        pass
