"""Keeps the hits of a search within a budget of tokens.

All hits share the budget. Where their texts do not fit, each keeps the sentences that follow each
other and answer best; where even that is too little for all, the last hits are left out, and a
cursor leads to them. The budget holds for the JSON of the whole answer, which is what the model
reads.
"""

from __future__ import annotations

import asyncio
import itertools
import re
from bisect import bisect_right
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from searchbus_contracts import ErrorCode, Fault, encode
from searchbus_contracts.queries import too_small
from searchbus_contracts.retrieval import SearchHit
from searchbus_passages import Ruler, count, excerpt, holds, sentences, share

from .highlights import Highlights

__all__ = ["Fitted", "fit", "offset_of"]

_LEAST_TEXT = 40
"""Tokens; with less text a hit says nothing."""
_CURSOR = re.compile(r"[1-9][0-9]?", re.ASCII)
Render = Callable[["Fitted"], Any]


@dataclass(frozen=True, slots=True)
class Fitted:
    """The hits that fit.

    Args:
        cursor: of the hits behind them; None where there are none.
    """

    hits: tuple[SearchHit, ...]
    cursor: str | None = None

    @property
    def truncated(self) -> bool:
        """Whether anything was left out."""
        return self.cursor is not None or any(hit.truncated for hit in self.hits)


def offset_of(cursor: str | None, limit: int) -> int:
    """The number of hits before a page.

    Raises:
        Fault: invalid_argument; it is no cursor of a search with this limit.
    """
    if cursor is None:
        return 0
    if _CURSOR.fullmatch(cursor) is None or int(cursor) >= limit:
        raise Fault(
            ErrorCode.INVALID_ARGUMENT,
            "cursor: unknown. Give the one of the answer before, with the same arguments, or omit "
            "it to start with the first result.",
        )
    return int(cursor)


async def fit(
    hits: Sequence[SearchHit],
    most: int,
    render: Render,
    *,
    query: str,
    highlights: Callable[[str], Awaitable[Highlights]],
    offset: int = 0,
) -> Fitted:
    """As many hits as fit, with as much of their texts.

    Args:
        render: the answer for hits, as it is encoded.
        highlights: collection → what finds its sentences that answer.
        offset: number of the search's hits that earlier pages had.

    Raises:
        Fault: invalid_argument; the budget is too small for one hit with a little of its text.
    """
    whole = Fitted(tuple(hits))
    encoded = encode(render(whole))
    if len(encoded) <= most or await asyncio.to_thread(holds, encoded, most):
        return whole
    layout = await asyncio.to_thread(_Layout, hits, most, render, offset)
    scores: dict[int, list[float]] = {}
    for collection, numbers in layout.collections.items():
        own = list(itertools.chain.from_iterable(layout.sentences[n] for n in numbers))
        found = iter(await (await highlights(collection)).score(query, own))
        for number in numbers:
            scores[number] = list(itertools.islice(found, len(layout.sentences[number])))
    return await asyncio.to_thread(layout.fill, scores)


class _Layout:
    """Decides how many hits fit and how much of each."""

    def __init__(self, hits: Sequence[SearchHit], most: int, render: Render, offset: int) -> None:
        self._most, self._render = most, render
        self._rulers = [Ruler(hit.text) for hit in hits]
        self._wanted = [
            ruler.between(0, len(hit.text)) for ruler, hit in zip(self._rulers, hits, strict=True)
        ]
        bare = [_part(hit, 0, 0) for hit in hits]

        def cursor(kept: int) -> str | None:
            return str(offset + kept) if kept < len(hits) else None

        def least(kept: int) -> int:
            texts = sum(min(_LEAST_TEXT, wanted) for wanted in self._wanted[:kept])
            return self._tokens_of(bare[:kept], cursor(kept)) + texts

        kept = bisect_right(range(1, len(hits) + 1), most, key=least)
        if kept == 0:
            raise too_small(most, least(1))
        self._hits = list(hits[:kept])
        self._next = cursor(kept)
        self._frame = self._tokens_of(bare[:kept], self._next)
        self.sentences = [
            [hit.text[span.start : span.end] for span in sentences(hit.text)] for hit in self._hits
        ]
        """Of each hit."""
        self.collections: dict[str, list[int]] = {}
        """Collection → the numbers of its hits."""
        for number, hit in enumerate(self._hits):
            self.collections.setdefault(hit.collection, []).append(number)

    def fill(self, scores: Mapping[int, Sequence[float]]) -> Fitted:
        """Give each hit its share of the tokens.

        Args:
            scores: of the sentences of each hit.
        """
        left = self._most - self._frame
        while True:
            shares = share(self._wanted[: len(self._hits)], left)
            fitted = Fitted(
                tuple(
                    _excerpt(hit, self._rulers[number], shares[number], scores[number])
                    for number, hit in enumerate(self._hits)
                ),
                self._next,
            )
            excess = _tokens(encode(self._render(fitted))) - self._most
            if excess <= 0:
                return fitted
            left -= excess

    def _tokens_of(self, hits: Sequence[SearchHit], cursor: str | None) -> int:
        return _tokens(encode(self._render(Fitted(tuple(hits), cursor))))


def _tokens(encoded: bytes) -> int:
    return count(encoded.decode())


def _excerpt(hit: SearchHit, ruler: Ruler, tokens: int, scores: Sequence[float]) -> SearchHit:
    span = excerpt(hit.text, ruler, tokens, lambda _: scores)
    if span is None:
        return _part(hit, 0, 0)
    return hit if (0, len(hit.text)) == tuple(span) else _part(hit, *span)


def _part(hit: SearchHit, start: int, end: int) -> SearchHit:
    """A hit with a part of its text, and the place of that part."""
    first = hit.start
    return msgspec.structs.replace(
        hit,
        text=hit.text[start:end],
        start=None if first is None else first + start,
        end=None if first is None else first + end,
        truncated=end - start < len(hit.text),
    )
