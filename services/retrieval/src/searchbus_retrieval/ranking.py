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

__all__ = ["Preference", "rank"]


@dataclass(frozen=True, slots=True)
class Preference:
    """Documents that the question seems to mean, and what that adds to their score (0..1).

    Args:
        name: what it is by, for explanations: date or type.
    """

    condition: Filter
    lift: float
    name: str = ""


def rank(
    overall: Sequence[Hit],
    preferred: Sequence[tuple[Preference, Sequence[Hit]]],
    lift: Callable[[Hit], float],
) -> list[Hit]:
    """Merge one search over all with one for each preference; best first, ties by id.

    A hit of several preferences gets the lift of each.

    Args:
        lift: what a hit's own text adds to its score.
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
        lifts[key] = lifts.get(key, 0.0) + lift(hit)
    lifted = [replace(hit, score=hit.score + lifts[key]) for key, hit in best.items()]
    return sorted(lifted, key=lambda hit: (-hit.score, hit.id))
