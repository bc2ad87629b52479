"""Ranks the documents that a question seems to mean above others that match it.

A date in the question ("in March 2022") is not a filter, because a later document may have the
answer. Each preference has a search of its own, so that its documents are among the candidates,
and raises the score of what it found. A passage in which the query stands word for word comes
before all others: names say little to the embedding model.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from searchbus_vectors import Filter, Hit

__all__ = ["LITERAL_LIFT", "Preference", "rank"]

LITERAL_LIFT = 1.0
"""As much as the best score without any lift."""


@dataclass(frozen=True, slots=True)
class Preference:
    """Documents that the question seems to mean, and what that adds to their score (0..1)."""

    condition: Filter
    lift: float


def rank(
    overall: Sequence[Hit],
    preferred: Sequence[tuple[Preference, Sequence[Hit]]],
    is_literal: Callable[[Hit], bool],
) -> list[Hit]:
    """Merge one search over all with one for each preference; best first, ties by id.

    A hit of several preferences gets the lift of each.

    Args:
        is_literal: whether the query stands in a hit word for word.
    """
    best: dict[str, Hit] = {hit.id: hit for hit in overall}
    lifts: dict[str, float] = {}
    for preference, hits in preferred:
        for hit in hits:
            known = best.get(hit.id)
            if known is None or known.score < hit.score:
                best[hit.id] = hit
            lifts[hit.id] = lifts.get(hit.id, 0.0) + preference.lift
    for key, hit in best.items():
        if is_literal(hit):
            lifts[key] = lifts.get(key, 0.0) + LITERAL_LIFT
    lifted = [replace(hit, score=hit.score + lifts.get(key, 0.0)) for key, hit in best.items()]
    return sorted(lifted, key=lambda hit: (-hit.score, hit.id))
