"""Keeps the hits of a search within a budget of tokens, which holds for the JSON of the answer.

Where their texts do not fit, each keeps the sentences that answer best; where that is too little
for all, the last hits are left out, and a cursor leads to them.
"""

from __future__ import annotations

import asyncio
import hashlib
import itertools
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np

from searchbus_contracts import ErrorCode, Fault, encode
from searchbus_contracts.queries import too_small
from searchbus_contracts.retrieval import SearchHit
from searchbus_passages import BudgetTooSmallError, Layout, Span, bm25, holds
from searchbus_vectors import Embedder

MAX_EMBEDDED = 48
"""Where there are more sentences, only their words are compared."""
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


Render = Callable[["Fitted"], Any]


@dataclass(frozen=True, slots=True)
class Fitted:
    """The hits that fit, and the cursor of the hits behind them, if any."""

    hits: tuple[SearchHit, ...]
    cursor: str | None = None

    @property
    def truncated(self) -> bool:
        """Whether anything was left out."""
        return self.cursor is not None or any(hit.truncated for hit in self.hits)


def rest_of(hits: Sequence[SearchHit], cursor: str | None, query: str) -> Sequence[SearchHit]:
    """The hits behind a cursor, if any are left; raises Fault(invalid_argument) for one of another
    search, or where other hits than those that earlier pages had are now before it."""
    if cursor is None:
        return hits
    for offset in range(1, len(hits) + 1):
        if cursor == _cursor_behind(hits[:offset], query):
            return hits[offset:]
    raise Fault(
        ErrorCode.INVALID_ARGUMENT,
        "cursor: unknown. Give the one of the answer before, with the same arguments, or omit it "
        "to start with the first result.",
    )


def _cursor_behind(given: Sequence[SearchHit], query: str) -> str:
    return hashlib.sha256(encode((query, [hit.chunk_id for hit in given]))).hexdigest()[:12]


async def fit(
    hits: Sequence[SearchHit],
    most: int,
    render: Render,
    *,
    query: str,
    highlights: Callable[[str], Awaitable[Highlights]],
    cursor: str | None = None,
) -> Fitted:
    """As many of a search's hits behind a cursor as fit, with as much of their texts.

    Args:
        render: the answer for hits, as it is encoded.
        highlights: collection → what finds its sentences that answer.

    Raises:
        Fault: invalid_argument; the budget is too small for one hit with a little of its text, or
            the cursor is of another search.
    """
    every, hits = hits, rest_of(hits, cursor, query)
    whole = Fitted(tuple(hits))
    encoded = encode(render(whole))
    if len(encoded) <= most or await asyncio.to_thread(holds, encoded, most):
        return whole

    def fitted(spans: Sequence[Span]) -> Fitted:
        shown = tuple(_part(hit, *span) for hit, span in zip(hits, spans, strict=False))
        left = len(hits) - len(shown)
        return Fitted(shown, _cursor_behind(every[:-left], query) if left else None)

    try:
        layout = await asyncio.to_thread(
            Layout, [hit.text for hit in hits], most, lambda spans: encode(render(fitted(spans)))
        )
    except BudgetTooSmallError as error:
        raise too_small(most, error.least) from None
    scores = await _scores(hits[: layout.kept], layout.sentences, query, highlights)
    return fitted(await asyncio.to_thread(layout.fill, scores))


async def _scores(
    hits: Sequence[SearchHit],
    sentences: Sequence[Sequence[str]],
    query: str,
    highlights: Callable[[str], Awaitable[Highlights]],
) -> list[list[float]]:
    """Scores of the sentences of each hit; those of one collection are compared together."""
    found: list[list[float]] = [[] for _ in hits]
    for collection in dict.fromkeys(hit.collection for hit in hits):
        numbers = [number for number, hit in enumerate(hits) if hit.collection == collection]
        own = [sentence for number in numbers for sentence in sentences[number]]
        scores = iter(await (await highlights(collection)).score(query, own))
        for number in numbers:
            found[number] = list(itertools.islice(scores, len(sentences[number])))
    return found


def _part(hit: SearchHit, start: int, end: int) -> SearchHit:
    if (start, end) == (0, len(hit.text)):
        return hit
    first = hit.start
    return msgspec.structs.replace(
        hit,
        text=hit.text[start:end],
        start=None if first is None else first + start,
        end=None if first is None else first + end,
        truncated=True,
    )
