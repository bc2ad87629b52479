"""Which sentences of passages answer a question: by their words (BM25) and by their meaning.

    scores = await Highlights(embedder).score("why did rates rise?", sentences)

Scores lie between 0 and 1 and compare sentences of one call only.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from searchbus_passages import bm25
from searchbus_vectors import Embedder

__all__ = ["MAX_EMBEDDED", "Highlights"]

MAX_EMBEDDED = 48
"""Of more sentences only the words are compared: the meaning of each takes milliseconds."""
_WORDS_SHARE = 0.5


class Highlights:
    """Scores sentences with an embedder."""

    def __init__(self, embedder: Embedder) -> None:
        self._embedder = embedder

    async def score(self, question: str, sentences: Sequence[str]) -> list[float]:
        """One score for each sentence."""
        if not sentences:
            return []
        words = self._by_words(question, sentences)
        if len(sentences) > MAX_EMBEDDED:
            return words
        meaning = await self._by_meaning(question, sentences)
        return [
            _WORDS_SHARE * by_words + (1 - _WORDS_SHARE) * by_meaning
            for by_words, by_meaning in zip(words, meaning, strict=True)
        ]

    def _by_words(self, question: str, sentences: Sequence[str]) -> list[float]:
        """BM25 with each sentence as a document."""
        wanted = set(self._embedder.words(question).indices)
        return bm25(wanted, [self._embedder.words(sentence).indices for sentence in sentences])

    async def cosines(self, question: str, texts: Sequence[str]) -> list[float]:
        """The cosine of each text to the question."""
        asked = f"{self._embedder.query_prefix}{question}"
        query, *vectors = await self._embedder.embed_short([asked, *texts], urgent=True)
        return [float(cosine) for cosine in np.asarray(vectors) @ np.asarray(query)]

    async def _by_meaning(self, question: str, sentences: Sequence[str]) -> list[float]:
        """Cosine to the question, between the least and the largest of them."""
        cosines = await self.cosines(question, sentences)
        least, most = min(cosines), max(cosines)
        if most - least < 1e-6:
            return [0.0] * len(sentences)
        return [(cosine - least) / (most - least) for cosine in cosines]
