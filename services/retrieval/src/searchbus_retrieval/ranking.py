"""Ranks what a question seems to mean above what merely matches it.

A date in the question ("in March 2022") is no filter: the answer may stand in a later document.
Each preference gets a search of its own, so that its documents are candidates at all, and lifts
what it found.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from searchbus_vectors import Filter, Hit

__all__ = ["Preference", "rank"]


@dataclass(frozen=True, slots=True)
class Preference:
    """Documents that the question seems to mean, and how much that is worth (score, 0..1)."""

    condition: Filter
    lift: float


def rank(
    everywhere: Sequence[Hit], preferred: Sequence[tuple[Preference, Sequence[Hit]]]
) -> list[Hit]:
    """Merge one search over all with one for each preference; best first, ties by id.

    A hit of several preferences gets the lift of each.
    """
    best: dict[str, Hit] = {hit.id: hit for hit in everywhere}
    lifts: dict[str, float] = {}
    for preference, hits in preferred:
        for hit in hits:
            known = best.get(hit.id)
            if known is None or known.score < hit.score:
                best[hit.id] = hit
            lifts[hit.id] = lifts.get(hit.id, 0.0) + preference.lift
    lifted = [replace(hit, score=hit.score + lifts.get(key, 0.0)) for key, hit in best.items()]
    return sorted(lifted, key=lambda hit: (-hit.score, hit.id))
