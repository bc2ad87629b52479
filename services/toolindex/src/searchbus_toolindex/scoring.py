"""How well an entry fits: cosine and BM25 on a common scale, facets combined, the floor.

Measured on LiveMCPBench and StableToolBench (`make bench`): see services/toolindex/README.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .lexicon import Mask, Matches

__all__ = ["FLOOR", "MIN_SCORE", "Facet", "combine", "fused"]

Floats = NDArray[np.float32]

WORDS_WEIGHT = 0.4
COSINE_SPAN = 0.2
"""bge-small's cosines of a query spread this far from the best entry to the irrelevant ones. A
fixed span does as well as min-max over candidates, and does not depend on what else is listed."""
SENTENCES_WEIGHT = 0.6
COVERAGE_WEIGHT = 0.3
FLOOR = 0.62
"""Evidence (cosine + .3 × coverage) that the best entry must reach. Of queries that a catalogue
serves, 1 to 2 % stay below; of questions about aircraft and of chatter, three in four."""
MIN_SCORE = 0.2
"""An entry must come within the span of the best, or share words with the query."""


@dataclass(frozen=True, slots=True)
class Facet:
    """One text of a question against every slot."""

    cosine: Floats
    matches: Matches

    @property
    def evidence(self) -> Floats:
        """How much speaks for each slot, comparable over queries."""
        evidence: Floats = self.cosine + COVERAGE_WEIGHT * self.matches.coverage
        return evidence


def fused(facet: Facet, visible: Mask) -> Floats:
    """Scores, 1 where an entry is best in both meaning and words."""
    best_words = float(facet.matches.scores[visible].max())
    words = facet.matches.scores / best_words if best_words > 0 else facet.matches.scores
    best = float(facet.cosine[visible].max())
    meaning = np.maximum((facet.cosine - best + COSINE_SPAN) / COSINE_SPAN, -1.0)
    scores: Floats = (WORDS_WEIGHT * words + (1 - WORDS_WEIGHT) * meaning).astype(np.float32)
    return scores


def combine(*, whole: Floats, sentences: Sequence[Floats], readings: Sequence[Floats]) -> Floats:
    """One score: the better of the query and its readings, with the best of its sentences."""
    score = np.max([whole, *readings], axis=0)
    if sentences:
        score = (1 - SENTENCES_WEIGHT) * score + SENTENCES_WEIGHT * np.max(sentences, axis=0)
    return np.asarray(score, dtype=np.float32)
