"""Which sentences of passages answer a question: by their words (BM25) and by their meaning.

    scores = await Highlights(embedder).score("why did rates rise?", sentences)

Scores lie between 0 and 1 and compare sentences of one call only.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

import numpy as np

from searchbus_vectors import Embedder

__all__ = ["MAX_EMBEDDED", "Highlights"]

MAX_EMBEDDED = 96
"""Sentences whose meaning is compared, the first ones: each takes milliseconds."""
_WORDS_SHARE = 0.5
_K1, _B = 1.2, 0.75


class Highlights:
    """Scores sentences with an embedder."""

    def __init__(self, embedder: Embedder) -> None:
        self._embedder = embedder

    async def score(self, question: str, sentences: Sequence[str]) -> list[float]:
        """One score for each sentence."""
        if not sentences:
            return []
        words = self._by_words(question, sentences)
        meaning = await self._by_meaning(question, sentences[:MAX_EMBEDDED])
        meaning += words[len(meaning) :]
        return [
            _WORDS_SHARE * by_words + (1 - _WORDS_SHARE) * by_meaning
            for by_words, by_meaning in zip(words, meaning, strict=True)
        ]

    def _by_words(self, question: str, sentences: Sequence[str]) -> list[float]:
        """BM25 with each sentence as a document, divided by its maximum."""
        wanted = set(self._embedder.words(question).indices)
        found = [Counter(self._embedder.words(sentence).indices) for sentence in sentences]
        lengths = [sum(terms.values()) for terms in found]
        average = sum(lengths) / len(lengths) or 1.0
        holders = Counter(term for terms in found for term in terms if term in wanted)
        scores = []
        for terms, length in zip(found, lengths, strict=True):
            norm = _K1 * (1 - _B + _B * length / average)
            scores.append(
                sum(
                    math.log1p((len(found) - holders[term] + 0.5) / (holders[term] + 0.5))
                    * times * (_K1 + 1) / (times + norm)
                    for term, times in terms.items()
                    if term in wanted
                )
            )  # fmt: skip
        best = max(scores)
        return [score / best if best else 0.0 for score in scores]

    async def _by_meaning(self, question: str, sentences: Sequence[str]) -> list[float]:
        """Cosine to the question, between the least and the largest of them."""
        query, *vectors = await self._embedder.embed_short([question, *sentences], urgent=True)
        cosines = np.asarray(vectors) @ query
        least, most = float(cosines.min()), float(cosines.max())
        if most - least < 1e-6:
            return [0.0] * len(sentences)
        return [(float(cosine) - least) / (most - least) for cosine in cosines]
