"""BM25 over a few texts, each of which is a document of its own."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable, Sequence, Set
from typing import TypeVar

T = TypeVar("T", bound=Hashable)
_K1, _B = 1.2, 0.75


def bm25(wanted: Set[T], texts: Sequence[Sequence[T]]) -> list[float]:
    """How well each text, by its terms as often as it has them, has the wanted ones: 1 for the best
    one, 0 without any."""
    counts = [Counter(terms) for terms in texts]
    lengths = [len(terms) for terms in texts]
    average = sum(lengths) / (len(lengths) or 1) or 1.0
    holders = Counter(term for found in counts for term in found if term in wanted)
    scores = []
    for found, length in zip(counts, lengths, strict=True):
        norm = _K1 * (1 - _B + _B * length / average)
        scores.append(
            sum(
                math.log1p((len(texts) - holders[term] + 0.5) / (holders[term] + 0.5))
                * (found[term] * (_K1 + 1) / (found[term] + norm))
                for term in found.keys() & wanted
            )
        )
    best = max(scores, default=0.0)
    return [score / best if best else 0.0 for score in scores]
