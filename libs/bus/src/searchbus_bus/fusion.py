"""Reciprocal rank fusion: one ranking from the rankings of several services.

Cormack, Clarke, Büttcher: Reciprocal Rank Fusion outperforms Condorcet and individual Rank Learning
Methods (SIGIR 2009). Ranks are comparable where scores of different services are not.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import TypeVar

__all__ = ["reciprocal_rank", "reciprocal_rank_fusion"]

K = TypeVar("K", bound=Hashable)


def reciprocal_rank(rank: int, *, k: int, weight: float = 1.0) -> float:
    """The score of one ranking for the item at `rank` (0 is the best): weight / (k + rank + 1).

    Args:
        k: the larger, the less the first ranks differ. 60 suits lists of a thousand, 20 of ten.
    """
    return weight / (k + rank + 1)


def reciprocal_rank_fusion(rankings: Iterable[Iterable[K]], *, k: int) -> dict[K, float]:
    """Add the scores of equally weighted rankings.

    Args:
        rankings: each best first; an item may be in several.

    Returns:
        item → score, in the order of first occurrence; sort it for a ranking.
    """
    scores: dict[K, float] = {}
    for ranking in rankings:
        for rank, item in enumerate(ranking):
            scores[item] = scores.get(item, 0.0) + reciprocal_rank(rank, k=k)
    return scores
