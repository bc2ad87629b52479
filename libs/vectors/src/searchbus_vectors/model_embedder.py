"""A model (dense; bge-small by default) and BM25 (sparse), computed outside of the event loop.

Queries have their own threads, and those of documents a lower priority. Each text runs alone: a
batch is slower, and the int8 model scales activations over it, so that a vector would depend on the
texts beside it (README.md).
"""

from __future__ import annotations

import asyncio
import logging
import os
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from msgspec.structs import replace

from .bm25 import document_vector, query_vector
from .embedder import Embedder
from .models import MINILM, MODEL_NAME, MULTILINGUAL, PAIR, Model, model_of, resolve_model
from .points import Match, QueryVectors, Sparse, Vector, Vectors

if TYPE_CHECKING:
    from .dense_model import DenseModel, MultilingualModel, PairedModel

log = logging.getLogger("searchbus.vectors")
T = TypeVar("T")
REST_AFTER_S = 60.0
"""Without a text for so long, a model gives memory back; the next text takes 2 to 3 ms longer."""


class ModelEmbedder(Embedder):
    """A loaded model. `load` makes it."""

    def __init__(
        self,
        model: Model,
        dense: DenseModel | MultilingualModel | PairedModel,
        document_threads: int,
        query_threads: int,
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
        self._uses = 0
        self._timer: asyncio.TimerHandle | None = None

    @classmethod
    def load(
        cls,
        folder: Path | None = None,
        *,
        name: str = MODEL_NAME,
        allow_download: bool = False,
        document_threads: int | None = None,
        query_threads: int | None = None,
    ) -> ModelEmbedder:
        """Import the runtime and load the model, which blocks; arguments as of `load_embedder`."""
        # onnxruntime sends usage data to its vendor unless this is set.
        os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
        # Imported here: fastembed takes a while, and the event loop goes on meanwhile.
        from .dense_model import PairedModel, shared_model, shared_multilingual_model

        model, cores = model_of(name), os.cpu_count() or 1

        def loaded(name: str) -> DenseModel:
            return shared_model(
                resolve_model(folder, name=name, allow_download=allow_download), name
            )

        dense: DenseModel | MultilingualModel | PairedModel
        if name == MULTILINGUAL and folder is None:
            dense = shared_multilingual_model()
        elif name == PAIR:
            dense = PairedModel(loaded(MODEL_NAME), loaded(MINILM), model.query_prefix)
        else:
            dense = loaded(name)
        dense.embed(["warm up"])
        dense.rest()
        return cls(model, dense, document_threads or cores, query_threads or cores)

    def comparable(self, matches: list[Match]) -> list[Match]:
        """See Embedder; a model without a measured scale is taken to have the default one's."""
        if self._known.slope == 1.0:
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
        if self._timer is not None:
            self._timer.cancel()
        self._query_pool.shutdown(wait=False, cancel_futures=True)
        await asyncio.to_thread(self._document_pool.shutdown, wait=True, cancel_futures=True)

    async def _embed_query(self, text: str) -> QueryVectors:
        return (await self._each(self._query_pool, self._query, [text]))[0]

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
        self._uses += 1
        if self._timer is None:
            self._watch(loop)
        return list(await asyncio.gather(*(loop.run_in_executor(pool, embed, t) for t in texts)))

    def _watch(self, loop: asyncio.AbstractEventLoop) -> None:
        self._timer = loop.call_later(REST_AFTER_S, self._look, loop, self._uses)

    def _look(self, loop: asyncio.AbstractEventLoop, uses: int) -> None:
        """Let the model rest if it was not used since; behind the texts that still wait."""
        if self._uses != uses:
            self._watch(loop)
            return
        self._timer = None
        self._document_pool.submit(self._dense.rest).add_done_callback(_note_failure)

    def _query(self, text: str) -> QueryVectors:
        dense = self._dense.embed([self.query_prefix + text])[0].tolist()
        return QueryVectors(dense, query_vector(text))

    def _one_text(self, text: str) -> Vector:
        vector: Vector = self._dense.embed([text])[0]
        return vector

    def _document(self, text: str) -> Vectors:
        dense = self._dense.embed([self._known.passage_prefix + text])[0]
        return Vectors(dense.tolist(), document_vector(text))


def _note_failure(rest: Future[None]) -> None:
    if not rest.cancelled() and (error := rest.exception()) is not None:
        log.warning("the memory of an idle model was not given back: %s", error)


def _lower_priority() -> None:
    try:
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), 10)
    except (OSError, AttributeError):
        pass
