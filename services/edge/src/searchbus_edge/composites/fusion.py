"""Merges the hits of several sources; each gets places in proportion to its weight."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from searchbus_bus.client.fanout import reciprocal_rank
from searchbus_upstream import canonical_key

from .sources import Hit

__all__ = ["fuse"]


def fuse(lists: Mapping[str, Sequence[Hit]], weights: Mapping[str, float]) -> list[Hit]:
    """Hits, best first; ties by id. A page of several sources is listed once, as first found.

    The score of a source's hit is its weight divided by its rank. Of ten places, a source of weight
    1 and one of .7 get six and four (the method of D'Hondt); a larger constant beside the rank, as
    in other reciprocal rank fusions, would list one source before the other.
    """
    scores: dict[str, float] = {}
    known: dict[str, Hit] = {}
    for source, hits in lists.items():
        for rank, hit in enumerate(hits):
            key = canonical_key(hit.url) if hit.url else hit.id
            known.setdefault(key, hit)
            weight = weights.get(source, 1.0) * hit.weight
            vote = reciprocal_rank(rank, k=0, weight=weight)
            scores[key] = scores.get(key, 0.0) + vote
    ranked = sorted(known, key=lambda key: (-scores[key], known[key].id))
    return [known[key] for key in ranked]
