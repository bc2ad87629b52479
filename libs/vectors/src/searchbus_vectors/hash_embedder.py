"""Vectors from hashed words, without a model: for tests and trials, not for production.

Texts that share words, or parts of words, are near; synonyms are not. Each word stem and each
trigram of its characters adds ±weight to one of 384 dimensions, chosen by its CRC-32.
"""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from collections.abc import Sequence
from functools import lru_cache
from math import sqrt
from zlib import crc32

import numpy as np

from .bm25 import STOPWORDS, stem, weighted
from .embedder import Embedder
from .points import DIMENSIONS, QueryVectors, Sparse, Vector, Vectors

_BASELINE = 0.4
"""Cosine of two texts without a common word. bge's unrelated texts have about the same, and the
thresholds of the services (for an empty result, for a match) are set for that."""
_TRIGRAM_WEIGHT = 0.25
_MAX_CHARS = 4000
"""A longer text counts by its first characters, as with the model."""
_WORD = re.compile(r"\d+|[^\W\d_]+")
_CASE_CHANGE = re.compile(r"(?<=[a-z])(?=[A-Z])")


class HashEmbedder(Embedder):
    """Embeds without a model; a passage takes well under a millisecond."""

    model = "searchbus/hash-1"

    def words(self, text: str) -> Sparse:
        """Term ids of a query; each weighs 1."""
        ids = sorted({_term_id(term) for term in _terms(text)})
        return Sparse(ids, [1.0] * len(ids))

    async def close(self) -> None:
        """Nothing to free."""

    async def _embed_query(self, text: str) -> QueryVectors:
        return QueryVectors(hashed_vector(text).tolist(), self.words(text))

    async def _embed_documents(self, texts: Sequence[str]) -> list[Vectors]:
        # In a thread: a large batch would delay the event loop.
        return await asyncio.to_thread(lambda: [_passage(text) for text in texts])

    async def _embed_short(self, texts: Sequence[str], urgent: bool) -> list[Vector]:
        if urgent:
            return [hashed_vector(text) for text in texts]
        return await asyncio.to_thread(lambda: [hashed_vector(text) for text in texts])


def _passage(text: str) -> Vectors:
    weights = weighted(Counter(_term_id(term) for term in _terms(text)))
    return Vectors(hashed_vector(text).tolist(), Sparse(list(weights), list(weights.values())))


def hashed_vector(text: str) -> Vector:
    """The dense vector of a text."""
    hashed = np.zeros(DIMENSIONS, dtype=np.float32)
    for term, count in Counter(_terms(text[:_MAX_CHARS])).items():
        for dimension, weight in _features(term):
            hashed[dimension] += weight * sqrt(count)
    if not hashed.any():
        hashed[0] = 1.0  # a text without words is near to no other
    hashed -= hashed.mean()  # without the constant direction, which is the baseline's
    hashed *= np.float32(sqrt(1 - _BASELINE) / float(np.linalg.norm(hashed)))
    vector: Vector = hashed + np.float32(sqrt(_BASELINE / DIMENSIONS))
    return vector


def _terms(text: str) -> list[str]:
    """Stems in order, without stopwords; `getForecast` gives get and forecast."""
    words = _WORD.findall(_CASE_CHANGE.sub(" ", text))
    return [stem(word.lower()) for word in words if word.lower() not in STOPWORDS]


@lru_cache(50_000)
def _features(term: str) -> tuple[tuple[int, float], ...]:
    """(dimension, signed weight) of a term and of its trigrams."""
    padded = f"^{term}$"
    trigrams = [padded[i : i + 3] for i in range(len(padded) - 2)]
    weights = {f"w:{term}": 1.0, **dict.fromkeys(trigrams, _TRIGRAM_WEIGHT)}
    return tuple(_place(feature, weight) for feature, weight in weights.items())


def _place(feature: str, weight: float) -> tuple[int, float]:
    digest = crc32(feature.encode("utf-8", "surrogatepass"))
    # The sign bit is not among those that choose the dimension.
    return (digest & 0x7FFFFFFF) % DIMENSIONS, weight if digest >> 31 else -weight


def _term_id(term: str) -> int:
    return crc32(term.encode("utf-8", "surrogatepass"))
