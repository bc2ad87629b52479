"""Retrieval measures: nDCG@k with binary gains, recall@k, success@k of known items."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence


def ndcg(ranked: Sequence[str], relevant: Collection[str], k: int = 10) -> float:
    """Normalised discounted cumulative gain at k."""
    gain = sum(1 / math.log2(i + 2) for i, key in enumerate(ranked[:k]) if key in relevant)
    best = sum(1 / math.log2(i + 2) for i in range(min(k, len(relevant))))
    return gain / best if best else 0.0


def recall(ranked: Sequence[str], relevant: Collection[str], k: int) -> float:
    """The share of the relevant items among the first k."""
    return len(set(ranked[:k]) & set(relevant)) / len(relevant) if relevant else 0.0


def success(ranked: Sequence[str], relevant: Collection[str], k: int) -> float:
    """1 when a relevant item is among the first k, else 0."""
    return float(any(key in relevant for key in ranked[:k]))
