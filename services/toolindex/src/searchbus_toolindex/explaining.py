"""What decided about an entry: its match with each text of the query, and the least values."""

from __future__ import annotations

from collections.abc import Sequence

from searchbus_contracts.toolindex import Considered, FindExplanation, TextMatch

from .entries import Entry
from .gate import LEAST, Verdict
from .query import ParsedQuery
from .scoring import MIN_SCORE, Facet

__all__ = ["considered", "explanation"]

_DIGITS = 4


def considered(
    entry: Entry,
    row: int,
    place: int,
    *,
    score: float,
    literal: float,
    verdict: Verdict,
    facets: Sequence[Facet],
) -> Considered:
    """What decided about an entry.

    Args:
        row: of the entry in the facets.
        place: of the entry in the verdict.
        score: with what `literal` adds to it.
        facets: of the query's texts.
    """
    left_out = None
    if score < MIN_SCORE:
        left_out = "score"
    elif not verdict.evident[place]:
        left_out = "probability"
    elif not verdict.close[place]:
        left_out = "share"
    return Considered(
        toolset=entry.toolset,
        name=entry.name,
        score=round(score, _DIGITS),
        probability=round(float(verdict.probabilities[place]), _DIGITS),
        literal=literal,
        matches=tuple(_match(facet, row) for facet in facets),
        left_out=left_out,
    )


def _match(facet: Facet, row: int) -> TextMatch:
    return TextMatch(
        cosine=round(float(facet.cosine[row]), _DIGITS),
        words=round(float(facet.matches.scores[row]), _DIGITS),
        coverage=round(min(1.0, float(facet.matches.coverage[row])), _DIGITS),
    )


def explanation(query: ParsedQuery, entries: Sequence[Considered]) -> FindExplanation:
    """The explanation of a whole search."""
    return FindExplanation(
        texts=query.texts,
        least_score=MIN_SCORE,
        least_probability=LEAST,
        considered=tuple(entries),
    )
