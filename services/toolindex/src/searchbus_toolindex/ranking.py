"""Ranks the entries of an index for a query, among those that a caller may see.

Every number that a rank depends on is counted over the visible slots only, so that hidden entries
have no effect. All of them are scored with estimated cosines, the best 200 again with exact ones.
Scores decide the order, probabilities what is left out, and what is shown (scoring.py).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from searchbus_contracts.toolindex import Considered, FindExplanation, Found, TextMatch
from searchbus_vectors import Vector

from .index import Index, Scope
from .lexicon import Floats
from .query import ParsedQuery
from .scoring import (
    LEAST,
    MIN_SCORE,
    Best,
    Facet,
    TextFeatures,
    Verdict,
    balanced,
    combine,
    fused,
    judge,
    load_gate,
    supported,
    toward,
)
from .words import word_terms

REFINED = 200
"""How many entries of a ranking have exact scores; estimated cosines are off by about .001. Scores
behind them are too low to be returned."""
_NEAREST = 10
"""Number of nearest entries that are kept where nothing matches."""
_DIGITS = 4
_MARGIN = 0.02
"""Below the least score, for entries whose exact score may reach it."""


@dataclass(frozen=True, slots=True)
class Ranking:
    """Slots of every match, best first; `first_page`: how many come before the scores fall off,
    `nearest`: the best entries where none matches."""

    slots: NDArray[np.intp]
    probabilities: Floats
    cosines: Floats
    first_page: int = 0
    nearest: Ranking | None = None

    def __len__(self) -> int:
        return len(self.slots)


@dataclass(frozen=True, slots=True)
class _Judged:
    """Slots with exact scores.

    Args:
        rows: of the slots, best first.
        scores, verdict: in that order.
        facets: in the order of the slots.
        literal: slot → what a literal match adds to its score.
    """

    slots: NDArray[np.intp]
    rows: NDArray[np.intp]
    scores: Floats
    facets: list[Facet]
    literal: dict[int, float]
    verdict: Verdict


_NOTHING = Ranking(np.zeros(0, dtype=np.intp), *np.zeros((2, 0), dtype=np.float32))


class Ranker:
    """Ranks the entries of an index; raises ValueError without a gate for the index's model."""

    def __init__(self, index: Index) -> None:
        self._index = index
        self._gate = load_gate(index.model)

    def facets(
        self, query: ParsedQuery, vectors: Mapping[str, Vector], scope: Scope
    ) -> list[Facet]:
        """Each of the query's texts compared with every slot, by vector; cosines are estimated."""
        cohort = self._index.cohort
        number = len(set(query.terms(query.whole)))
        asked = [vectors[text] for text in query.texts]
        nearness = [cohort.nearness(balanced(vector, number)) for vector in asked]
        moved = [
            balanced(toward(vector, near.expected, number), number)
            for vector, near in zip(asked, nearness, strict=True)
        ]
        cosines = self._index.vectors.estimate(moved)
        found = []
        for at, text in enumerate(query.texts):
            terms = query.terms(text)
            features = TextFeatures(
                nearness=nearness[at],
                terms=len(set(terms)),
                corrected=query.corrections(text),
                strange=query.strangeness(text),
                entries=scope.lengths.number,
            )
            matches = self._index.lexicon.match(terms, scope.lengths)
            found.append(Facet(moved[at], cosines[at], matches, features))
        return found

    def rank(self, query: ParsedQuery, vectors: Mapping[str, Vector], scope: Scope) -> Ranking:
        """Rank the visible entries that probably serve the query, by the vectors of its texts."""
        judged = self._judge(query, vectors, scope, MIN_SCORE - _MARGIN)
        if judged is None:
            return _NOTHING
        number = int(np.count_nonzero(judged.verdict.returned & (judged.scores >= MIN_SCORE)))
        if not number:
            return replace(_NOTHING, nearest=_first(judged, _NEAREST, first_page=0))
        return _first(judged, number, first_page=min(number, judged.verdict.first_page))

    def explain(
        self, query: ParsedQuery, vectors: Mapping[str, Vector], scope: Scope, most: int
    ) -> FindExplanation:
        """What decides about the `most` best visible entries; `vectors` by the query's texts."""
        judged = self._judge(query, vectors, scope, -np.inf)
        considered = () if judged is None else self._considered(judged, most)
        return FindExplanation(
            texts=query.texts,
            least_score=MIN_SCORE,
            least_probability=LEAST,
            considered=tuple(considered),
        )

    def _considered(self, judged: _Judged, most: int) -> Iterator[Considered]:
        """What decided about the best entries: the match with each text of the query."""
        verdict = judged.verdict
        for place, row in enumerate(judged.rows[:most].tolist()):
            slot = int(judged.slots[row])
            entry = self._index.slots[slot]
            if entry is None:
                continue
            left_out = None
            if judged.scores[place] < MIN_SCORE:
                left_out = "score"
            elif not verdict.evident[place]:
                left_out = "probability"
            elif not verdict.close[place]:
                left_out = "share"
            yield Considered(
                toolset=entry.toolset,
                name=entry.name,
                score=round(float(judged.scores[place]), _DIGITS),
                probability=round(float(verdict.probabilities[place]), _DIGITS),
                literal=judged.literal.get(slot, 0.0),
                matches=tuple(
                    TextMatch(
                        cosine=round(float(facet.cosine[row]), _DIGITS),
                        words=round(float(facet.matches.scores[row]), _DIGITS),
                        coverage=round(min(1.0, float(facet.matches.coverage[row])), _DIGITS),
                    )
                    for facet in judged.facets
                ),
                left_out=left_out,
            )

    def _judge(
        self, query: ParsedQuery, vectors: Mapping[str, Vector], scope: Scope, least: float
    ) -> _Judged | None:
        """The best visible entries with exact scores; None if no estimate reaches the least one."""
        visible = scope.lengths.visible
        if not scope.lengths.number:
            return None
        facets = self.facets(query, vectors, scope)
        best = [facet.best(visible) for facet in facets]
        coverage = facets[0].matches.coverage
        literal = self._index.literal.bonuses(query.whole, self._index.slots, coverage, visible)
        estimates = _combined(query, facets, best)
        for slot, bonus in literal.items():
            estimates[slot] += bonus
        slots = np.flatnonzero(visible & (estimates >= least))
        if not len(slots):
            return None
        if len(slots) > REFINED:
            keys = self._keys(slots, estimates[slots])
            slots = slots[np.argpartition(keys, REFINED)[:REFINED]]
        exact = [
            facet.at(slots, self._index.vectors.cosines(slots, facet.vector)) for facet in facets
        ]
        best = [
            replace(estimated, cosine=float(facet.cosine.max()))
            for facet, estimated in zip(exact, best, strict=True)
        ]
        terms = facets[0].text.terms
        scores = supported(
            _combined(query, exact, best), self._index.columns.toolsets(slots), terms
        )
        highest = scores.max()
        scores += np.array([literal.get(slot, 0.0) for slot in slots.tolist()], dtype=np.float32)
        scores = np.round(scores, 4)
        rows = np.argsort(self._keys(slots, scores))
        scores = scores[rows]
        odds = self._evidence(query, exact, slots)
        verdict = judge(odds, terms, scores - highest)
        return _Judged(slots, rows, scores, exact, literal, verdict)

    def _evidence(
        self, query: ParsedQuery, facets: Sequence[Facet], slots: NDArray[np.intp]
    ) -> float:
        """The logarithm of the odds that any of these slots serves the query."""
        return max(
            float(
                self._gate.logits(
                    facet.cosine,
                    facet.matches.coverage,
                    self._index.vectors.agreement(slots, facet.text.nearness.expected),
                    facet.text,
                ).max()
            )
            for text, facet in zip(query.texts, facets, strict=True)
            if query.is_evidence(text)
        )

    def page(self, query: str, ranking: Ranking, offset: int, limit: int) -> tuple[Found, ...]:
        """A page of a ranking. The index must not have changed since the ranking was made."""
        part = slice(offset, offset + limit)
        slots = ranking.slots[part]
        written = [
            (word, self._index.lexicon.contains(term, slots)) for word, term in word_terms(query)
        ]
        columns = (slots, ranking.probabilities[part], ranking.cosines[part])
        rows = zip(*(column.tolist() for column in columns), strict=True)
        return tuple(
            Found(
                toolset=entry.toolset,
                name=entry.name,
                score=round(probability, _DIGITS),
                cosine=round(cosine, _DIGITS),
                matched=tuple(dict.fromkeys(word for word, found in written if found[row])),
            )
            for row, (slot, probability, cosine) in enumerate(rows)
            if (entry := self._index.slots[slot]) is not None
        )

    def _keys(self, slots: NDArray[np.intp], scores: Floats) -> NDArray[np.int64]:
        # One whole number for both: sorting by two arrays takes ten times as long.
        keys = np.rint(scores * -10_000).astype(np.int64) << 32
        return keys + self._index.columns.place[slots]


def _first(judged: _Judged, number: int, *, first_page: int) -> Ranking:
    rows = judged.rows[:number]
    return Ranking(
        slots=judged.slots[rows],
        probabilities=judged.verdict.probabilities[:number].copy(),  # else all of them are kept
        cosines=np.max([facet.cosine[rows] for facet in judged.facets], axis=0),
        first_page=first_page,
    )


def _combined(query: ParsedQuery, facets: Sequence[Facet], best: Sequence[Best]) -> Floats:
    """One score by slot, of the facets of all texts."""
    number = len(query.sentences)
    scores = fused(facets, best)
    return combine(whole=scores[0], sentences=scores[1 : number + 1], readings=scores[number + 1 :])
