"""The score of an entry: cosine and BM25 on a common scale, combined over the query's texts.

Measured on LiveMCPBench and StableToolBench (`make bench`): see services/toolindex/README.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .lexicon import Floats, Mask, Matches

__all__ = ["Best", "Facet", "combine", "fused", "least_score"]

WORDS_WEIGHT = 0.4
COSINE_SPAN = 0.2
"""The usual distance between bge-small's cosine of the best entry and of irrelevant ones. A fixed
span is as good as min-max over candidates, and does not depend on the other entries."""
SENTENCES_WEIGHT = 0.6
COVERAGE_WEIGHT = 0.3
CONTRAST_WEIGHT = 0.5
FLOOR = 0.67
"""Evidence that the best entry must reach; otherwise the result is empty. It is the cosine, plus
.5 × its distance to the typical cosine of the catalogue, plus .3 × the share of the query's words
found, weighted by their rarity."""
MIN_SCORE = 0.2
"""Entries below are left out: neither within the span of the best nor with enough common words."""
TAIL = 0.3
"""Entries are left out, too, whose score is in this part of the way from typical to best."""
MAX_TAIL_SCORE = 0.4
"""Entries above stay: where most entries of a catalogue fit, the typical one is no noise."""
TYPICAL_COSINE = 0.5
"""Of bge-small, between a query and a tool that does something else."""
_PRIOR_ENTRIES = 8
"""How many entries with typical values are added to a mean: a catalogue of one has none itself."""


@dataclass(frozen=True, slots=True)
class Best:
    """The highest cosine and word score, and the mean cosine, of the visible slots."""

    cosine: float
    words: float
    typical: float


@dataclass(frozen=True, slots=True)
class Facet:
    """One text of a query, compared with every slot."""

    cosine: Floats
    matches: Matches

    def evidence(self, typical: float) -> Floats:
        """By slot, how well it fits the query; comparable across queries and catalogues."""
        contrast = CONTRAST_WEIGHT * (self.cosine - typical)
        evidence: Floats = self.cosine + contrast + COVERAGE_WEIGHT * self.matches.coverage
        return evidence

    def best(self, visible: Mask) -> Best:
        """The highest cosine and word score of visible slots."""
        cosine = self.cosine[visible]
        words = float(self.matches.scores[visible].max())
        return Best(float(cosine.max()), words, _mean(cosine, TYPICAL_COSINE))

    def at(self, slots: NDArray[np.intp], cosine: Floats) -> Facet:
        """The same text compared with some slots, whose cosines are given."""
        found = Matches(self.matches.scores[slots], self.matches.coverage[slots])
        return Facet(cosine, found)


def fused(facet: Facet, best: Best) -> Floats:
    """Scores by slot; 1 for an entry that is best in both meaning and words."""
    words = facet.matches.scores / best.words if best.words > 0 else facet.matches.scores
    meaning = np.maximum((facet.cosine - best.cosine + COSINE_SPAN) / COSINE_SPAN, -1.0)
    scores: Floats = (WORDS_WEIGHT * words + (1 - WORDS_WEIGHT) * meaning).astype(np.float32)
    return scores


def least_score(scores: Floats) -> float:
    """The score below which entries are left out."""
    typical = _mean(scores, 0.0)
    tail = typical + TAIL * (float(scores.max()) - typical)
    return min(max(MIN_SCORE, tail), MAX_TAIL_SCORE)


def _mean(values: Floats, prior: float) -> float:
    """The mean; that of few values is near the prior."""
    total = float(values.sum(dtype=np.float64)) + _PRIOR_ENTRIES * prior
    return total / (len(values) + _PRIOR_ENTRIES)


def combine(*, whole: Floats, sentences: Sequence[Floats], readings: Sequence[Floats]) -> Floats:
    """One score by slot: the best of the query and its readings, and the best of its sentences."""
    score = np.max([whole, *readings], axis=0)
    if sentences:
        score = (1 - SENTENCES_WEIGHT) * score + SENTENCES_WEIGHT * np.max(sentences, axis=0)
    return np.asarray(score, dtype=np.float32)
