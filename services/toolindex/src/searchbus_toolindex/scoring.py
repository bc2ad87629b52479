"""The score of an entry: cosine and BM25 on a common scale, combined over the query's texts.

Measured on LiveMCPBench and StableToolBench (`make bench`): see services/toolindex/README.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from searchbus_vectors import DIMENSIONS, Vector

from .embedding import unit
from .gate import Circumstances, brevity
from .lexicon import Floats, Mask, Matches

__all__ = ["MIN_SCORE", "Best", "Facet", "balanced", "combine", "fused", "supported", "toward"]

WORDS_WEIGHT = 0.4
SPOKEN_WORDS_WEIGHT = 0.25
"""For a short request, which names a thing rather than the tool ("how is Apple doing")."""
COSINE_SPAN = 0.2
"""The usual distance between bge-small's cosine of the best entry and of irrelevant ones. A fixed
span is as good as min-max over candidates, and does not depend on the other entries."""
SENTENCES_WEIGHT = 0.75
COMMON_WEIGHT = 0.25
"""How much the best cosine of all texts counts beside a text's own: a sentence that asks for
nothing ("I am a football fan") has a best entry, too."""
TOOLSET_WEIGHT = 0.5
"""How much the best entry of its toolset counts beside an entry's own score, for a very long
request; nothing for a short one, which asks for one thing."""
EXPECTED_WEIGHT = 0.3
"""How much of the vector of a request for one thing is that of the kind of tool that it wants."""
MIN_SCORE = 0.2
"""Entries below are left out: neither within the span of the best nor with enough common words."""


@dataclass(frozen=True, slots=True)
class Best:
    """The highest cosine and word score of the visible slots."""

    cosine: float
    words: float


@dataclass(frozen=True, slots=True)
class Facet:
    """One text of a query, compared with every slot.

    Args:
        vector: of the text, moved toward the kind of tool that it wants.
        cosine: of each slot with it, less the penalty for hubs.
    """

    vector: Vector
    cosine: Floats
    matches: Matches
    circumstances: Circumstances

    def best(self, visible: Mask) -> Best:
        """The highest cosine and word score of visible slots."""
        # With `where` numpy makes no copy.
        cosine = self.cosine.max(where=visible, initial=-np.inf)
        return Best(float(cosine), float(self.matches.scores.max(where=visible, initial=0.0)))

    def at(self, slots: NDArray[np.intp], cosine: Floats) -> Facet:
        """The same text compared with some slots, whose cosines are given."""
        found = Matches(self.matches.scores[slots], self.matches.coverage[slots])
        return Facet(self.vector, cosine, found, self.circumstances)


def toward(vector: Vector, expected: Vector, terms: int) -> Vector:
    """The vector of a text, moved toward the kind of tool that it wants; less for a long query.

    People ask in other words than those that describe tools ("put a lunch with Priya on Thursday");
    a long request has words enough.

    Args:
        terms: of the whole query.
    """
    weight = EXPECTED_WEIGHT * brevity(terms)
    return unit((1 - weight) * vector + weight * expected)


def balanced(vector: Vector, terms: int) -> Vector:
    """A vector of two models with more of the first, the longer the query is; one of one as it is.

    The second model is the better one for what people say, the first for long descriptions.
    """
    if len(vector) == DIMENSIONS:
        return vector
    found = vector.copy()
    found[:DIMENSIONS] *= 2 - brevity(terms)
    found[DIMENSIONS:] *= brevity(terms)
    return found


def fused(facets: Sequence[Facet], best: Sequence[Best]) -> list[Floats]:
    """Scores by facet and slot; 1 for an entry that is best in both meaning and words.

    Args:
        facets: of the whole query first.
    """
    common = max(found.cosine for found in best)
    short = brevity(facets[0].circumstances.terms)
    words = WORDS_WEIGHT + (SPOKEN_WORDS_WEIGHT - WORDS_WEIGHT) * short
    return [
        _fused(facet, found, words, (1 - COMMON_WEIGHT) * found.cosine + COMMON_WEIGHT * common)
        for facet, found in zip(facets, best, strict=True)
    ]


def _fused(facet: Facet, best: Best, weight: float, highest: float) -> Floats:
    words = facet.matches.scores / best.words if best.words > 0 else facet.matches.scores
    meaning = np.maximum((facet.cosine - highest + COSINE_SPAN) / COSINE_SPAN, -1.0)
    scores: Floats = (weight * words + (1 - weight) * meaning).astype(np.float32)
    return scores


def combine(*, whole: Floats, sentences: Sequence[Floats], readings: Sequence[Floats]) -> Floats:
    """One score by slot: the best of the query and its readings, and the best of its sentences."""
    score = np.max([whole, *readings], axis=0)
    if sentences:
        score = (1 - SENTENCES_WEIGHT) * score + SENTENCES_WEIGHT * np.max(sentences, axis=0)
    return np.asarray(score, dtype=np.float32)


def supported(scores: Floats, toolsets: NDArray[np.int32], terms: int) -> Floats:
    """Scores with a share of the best of their toolset: a task takes several tools of a server.

    Args:
        terms: of the whole query.
    """
    best = np.full(int(toolsets.max()) + 1, -np.inf, dtype=np.float32)
    np.maximum.at(best, toolsets, scores)
    weight = TOOLSET_WEIGHT * (1 - brevity(terms))
    return np.asarray((scores + weight * best[toolsets]) / (1 + weight), dtype=np.float32)
