"""Scores, which order the entries, and the probability that an entry serves a query.

A score is cosine and BM25 on a common scale, combined over the query's texts (measured by
`make bench`; services/toolindex/README.md has the measurements). The probability is that of a
logistic model, the gate. README.md lists its features: for a request to book a flight, a catalogue
of search tools has an entry that is near to the words, but none near to the cohort's flight tools.

The weights, in gate.json, are fitted by `python -m tests.search.fit_gate`, on as many queries that
the catalogue serves as others: the probabilities are those of such a mix.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

import msgspec
import numpy as np
from numpy.typing import NDArray

from searchbus_vectors import DIMENSIONS, Vector

from .cohort import Nearness
from .embedding import unit
from .lexicon import Floats, Mask, Matches

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
FEATURES = (
    "tools_margin", "others_margin", "coverage", "agreement", "terms", "corrected", "entries",
    "strange", "requests_margin",
)  # fmt: skip
_FITTED_ENTRIES = 527
"""The largest catalogue that the gate is fitted on. In a larger one the best entry is near to
anything by chance, so that what is near by its meaning alone needs more evidence."""
_MEASURED_ENTRIES = 2_479
"""The largest catalogue that this was measured on: a larger one needs no more evidence than it."""
_WORDLESS_GROWTH, _WORDLESS_COVERAGE = 0.6, 0.2
"""How much more, for each unit of the logarithm of the number of entries, where no word of the
request is found; nothing more from this coverage on."""
LEAST = 0.175
"""The probability that the best entry must have; otherwise the result is empty."""
_SLOPE, _RANK_WEIGHT = 5.5, 0.8
"""How fast the logarithm of the odds falls with the distance to the best score, and with that of
the rank (`python -m tests.search.fit_falloff`)."""
_LEAST_SHARE = 1 / 35
"""Entries whose odds are a smaller share of the best's are left out."""
_FLOOR = 0.05
"""Entries of a lower probability are left out, too."""
_PAGE_GAP, _PAGE_NARROWING = 0.844, 0.364
"""How far behind the best score the last entry of a first page may be: less the lower its rank, .26
for the fifth and nothing for the tenth. On average five entries, with as many right ones among the
first five as in a page of ten."""
_SHORT = 5
"""Terms of a request for one thing. A longer one asks for several, and each tool scores below the
best for the parts that it does not serve."""


@dataclass(frozen=True, slots=True)
class TextFeatures:
    """The features of one text of a query, which all entries share that are compared with it.

    Args:
        terms: number of different terms of the text.
        corrected: share of its words that are corrections, 0 to 1.
        strange: share of its words that are in no entry and in no language, 0 to 1.
        entries: number of visible ones.
    """

    nearness: Nearness
    terms: int
    corrected: float
    strange: float
    entries: int


class Gate(msgspec.Struct, frozen=True):
    """The fitted model, with weights of `FEATURES`."""

    weights: tuple[float, ...]
    intercept: float

    def logits(
        self, cosines: Floats, coverage: Floats, agreement: Floats, found: TextFeatures
    ) -> Floats:
        """By entry, the logarithm of the odds that it serves the text."""
        logits: Floats = features(cosines, coverage, agreement, found) @ np.array(self.weights)
        entries = min(found.entries, _MEASURED_ENTRIES)
        if entries > _FITTED_ENTRIES:
            grown = math.log((entries + 8) / (_FITTED_ENTRIES + 8))
            wordless = np.maximum(0.0, 1 - coverage / _WORDLESS_COVERAGE)
            logits -= _WORDLESS_GROWTH * grown * wordless
        return logits + self.intercept


def brevity(terms: int) -> float:
    """1 for a request for one thing, nearly 0 for one of very many terms."""
    return min(1.0, _SHORT / max(1, terms))


@dataclass(frozen=True, slots=True)
class Verdict:
    """What becomes of entries, best first.

    Args:
        evident: whether the catalogue probably serves the query, or the match is literal.
        close: whether the odds are not far below those of the best, nor the probability below the
            floor.
        first_page: how many come before the scores fall off; at most ten.
    """

    probabilities: Floats
    evident: Mask
    close: Mask
    first_page: int

    @property
    def returned(self) -> Mask:
        """The first ones, or none."""
        return self.evident & self.close


def judge(odds: float, terms: int, behind: Floats) -> Verdict:
    """The probabilities that entries serve the query, and which of them are returned.

    Args:
        odds: their logarithm, of the entry with the most evidence.
        terms: of the whole query.
        behind: how far the score of each entry is from the highest, best first: 0 or less; more
            than 0 for a literal match, which needs no other evidence.
    """
    ranks = np.log(np.arange(1, len(behind) + 1))
    fall = _SLOPE * brevity(terms) * behind - _RANK_WEIGHT * ranks
    gap = -np.minimum(behind, 0)
    near = np.flatnonzero(gap <= _PAGE_GAP - _PAGE_NARROWING * ranks)
    # Beyond 50 the probability is 1, and exp would overflow.
    found = 1 / (1 + np.exp(-np.clip(odds + fall, -50, 50)))
    return Verdict(
        probabilities=np.round(found, 4).astype(np.float32),
        evident=odds + _SLOPE * np.maximum(behind, 0) >= math.log(LEAST / (1 - LEAST)),
        close=(fall >= math.log(_LEAST_SHARE)) & (found >= _FLOOR),
        first_page=int(near[-1]) + 1 if len(near) else 0,
    )


def features(
    cosines: Floats, coverage: Floats, agreement: Floats, found: TextFeatures
) -> NDArray[np.float64]:
    """Shape (entries, features)."""
    columns = np.empty((len(cosines), len(FEATURES)))
    columns[:, 0] = cosines - found.nearness.tools
    columns[:, 1] = cosines - found.nearness.others
    columns[:, 2] = coverage
    columns[:, 3] = agreement
    columns[:, 4] = np.log(max(1, found.terms))
    columns[:, 5] = found.corrected
    columns[:, 6] = np.log(found.entries + 8)
    columns[:, 7] = found.strange
    columns[:, 8] = found.nearness.requests - found.nearness.others
    return columns


@cache
def load_gate(model: str) -> Gate:
    """The gate of a model; raises ValueError, which says how one is fitted."""
    text = files(__package__).joinpath("gate.json").read_bytes()
    gates = msgspec.json.decode(text, type=dict[str, Gate])
    if model not in gates:
        raise ValueError(
            f"The tool index has no gate for the model {model!r}. "
            "Add the model to tests/search/fit_gate.py and run it."
        )
    return gates[model]


@dataclass(frozen=True, slots=True)
class Best:
    """The highest cosine and word score of the visible slots."""

    cosine: float
    words: float


@dataclass(frozen=True, slots=True)
class Facet:
    """One text of a query, moved toward the kind of tool that it wants, and the cosine of each slot
    with it, less the penalty for hubs."""

    vector: Vector
    cosine: Floats
    matches: Matches
    text: TextFeatures

    def best(self, visible: Mask) -> Best:
        """The highest cosine and word score of visible slots."""
        # With `where` numpy makes no copy.
        cosine = self.cosine.max(where=visible, initial=-np.inf)
        return Best(float(cosine), float(self.matches.scores.max(where=visible, initial=0.0)))

    def at(self, slots: NDArray[np.intp], cosine: Floats) -> Facet:
        """The same text compared with some slots, whose cosines are given."""
        found = Matches(self.matches.scores[slots], self.matches.coverage[slots])
        return Facet(self.vector, cosine, found, self.text)


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
    """Scores by facet (the whole query first) and slot; 1 is best in both meaning and words."""
    common = max(found.cosine for found in best)
    short = brevity(facets[0].text.terms)
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
    """Scores by a share of their toolset's best: a task takes several. `terms`: whole query."""
    best = np.full(int(toolsets.max()) + 1, -np.inf, dtype=np.float32)
    np.maximum.at(best, toolsets, scores)
    weight = TOOLSET_WEIGHT * (1 - brevity(terms))
    return np.asarray((scores + weight * best[toolsets]) / (1 + weight), dtype=np.float32)
