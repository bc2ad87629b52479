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
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from searchbus_contracts import ErrorCode, Fault, encode
from searchbus_contracts.queries import too_small
from searchbus_contracts.retrieval import SearchHit
from searchbus_passages import BudgetTooSmall, Layout, Span, holds

from .highlights import Highlights

__all__ = ["Fitted", "fit", "offset_of"]

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
        Fault: invalid_argument; the cursor was not made by a search with this limit.
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

    def fitted(spans: Sequence[Span]) -> Fitted:
        shown = tuple(_part(hit, *span) for hit, span in zip(hits, spans, strict=False))
        more = str(offset + len(shown)) if len(shown) < len(hits) else None
        return Fitted(shown, more)

    try:
        layout = await asyncio.to_thread(
            Layout, [hit.text for hit in hits], most, lambda spans: encode(render(fitted(spans)))
        )
    except BudgetTooSmall as error:
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
    """A hit with a part of its text, and the place of that part."""
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
