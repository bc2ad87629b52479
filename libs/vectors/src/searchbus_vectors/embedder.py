"""The interface of an embedder: text to vectors.

    Embedder
    ├── ModelEmbedder   a model (models.py), bge-small by default   model_embedder.py
    └── HashEmbedder    hashed words, no model; for tests           hash_embedder.py

`load_embedder` (loading.py) makes the one that a setting names.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

from opentelemetry import trace

from .points import Match
from .vectors import DIMENSIONS, QueryVectors, Sparse, Vector, Vectors

__all__ = ["Embedder"]

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
        """Embed short texts (names, descriptions, questions): dense vectors only.

        A text's vector does not depend on the other texts of the call.

        Args:
            urgent: whether a caller waits for the result, so that it must not queue behind
                documents.
        """
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
