"""The vectors of the tool index: those of two models side by side.

The models err on different texts, so that the mean of their cosines, the dot product of two such
vectors, ranks better than either (services/toolindex/README.md has the measurements).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from searchbus_vectors import (
    MINILM,
    Embedder,
    EmbedderKind,
    ModelNotFoundError,
    Vector,
    load_embedder,
)

log = logging.getLogger("searchbus.toolindex")


class Embeds(Protocol):
    """The part of an embedder that the index uses."""

    model: str
    dimensions: int
    query_prefix: str

    async def embed_short(self, texts: Sequence[str], *, urgent: bool) -> list[Vector]:
        """One vector for each text."""

    def is_word(self, word: str) -> bool:
        """Whether the model knows the word, so that it is hardly misspelt."""

    async def close(self) -> None:
        """Wait for running batches and free the threads."""


class PairedEmbedder:
    """Two models as one: the first half of a vector is the first model's. Unit length.

    A text that begins with the first model's query prefix is a query for both.
    """

    def __init__(self, first: Embedder, second: Embedder) -> None:
        self._first, self._second = first, second
        self.model = f"{first.model}+{second.model}"
        self.dimensions = first.dimensions + second.dimensions
        self.query_prefix = first.query_prefix

    async def embed_short(self, texts: Sequence[str], *, urgent: bool) -> list[Vector]:
        """One vector for each text."""
        pairs = await asyncio.gather(
            self._first.embed_short(texts, urgent=urgent),
            self._second.embed_short([self._for_second(text) for text in texts], urgent=urgent),
        )
        return [unit(np.concatenate(halves)) for halves in zip(*pairs, strict=True)]

    def _for_second(self, text: str) -> str:
        plain = text.removeprefix(self.query_prefix)
        return text if plain == text else self._second.query_prefix + plain

    def is_word(self, word: str) -> bool:
        """Whether the first model knows the word as a whole."""
        return self._first.is_word(word)

    async def close(self) -> None:
        """Wait for running batches and free the threads."""
        await asyncio.gather(self._first.close(), self._second.close())


def unit(vector: Vector) -> Vector:
    """The vector with the length 1, by a sum whose order is fixed; one of zeros stays."""
    length = np.sqrt(np.einsum("j,j->", vector, vector))
    return np.asarray(vector / (length or 1), dtype=np.float32)


async def load_tool_embedder(
    kind: EmbedderKind = "model",
    *,
    folder: Path | None = None,
    second: bool = True,
    **options: Any,
) -> Embeds:
    """Load what makes the vectors of the index; `options` as of `load_embedder`.

    The `second` model lies in the first one's folder, as `all-MiniLM-L6-v2`; it is left out where
    it is not installed. Raises ModelNotFoundError, which says what to do.
    """
    first = await load_embedder(kind, folder=folder, **options)
    if kind == "hash" or not second:
        return first
    second_folder = None if folder is None else folder / MINILM.rpartition("/")[2]
    try:
        other = await load_embedder(model=MINILM, folder=second_folder, **options)
    except ModelNotFoundError as error:
        log.warning("tools are ranked by one model (SEARCHBUS_SECOND_MODEL=false): %s", error)
        return first
    return PairedEmbedder(first, other)
