"""The index: entries in slots, ranked for a query among those that a caller may see.

    index = Index(embedder.model)
    index.replace("weather", entries, vectors_of)
    ranking = index.rank(query, vectors, index.scope(actor, "tool"))

Every number that a rank depends on is counted over the visible slots only, so that hidden entries
have no effect. All of them are scored with estimated cosines, the best 200 again with exact ones.
Scores decide the order (scoring.py), probabilities what is left out, and what is shown (gate.py).
Not thread-safe; use it on the event loop.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from cachetools import LRUCache
from numpy.typing import NDArray

from searchbus_contracts import Actor
from searchbus_contracts.toolindex import Considered, Kind
from searchbus_vectors import Vector

from .cohort import load_cohort
from .columns import Columns
from .entries import Entry, Key
from .explaining import considered
from .gate import Circumstances, Verdict, judge, load_gate
from .lexicon import Floats, Lexicon
from .literal import LiteralMatches
from .query import ParsedQuery
from .scope import Scope, ScopeKey
from .scoring import MIN_SCORE, Best, Facet, combine, fused, supported
from .vectors import EntryVectors
from .vocabulary import Vocabulary
from .words import word_terms

__all__ = ["Difference", "Index", "Ranked", "Ranking"]

REFINED = 200
"""How many entries of a ranking have exact scores; estimated cosines are off by about .001. Scores
behind them are too low to be returned."""
_MARGIN = 0.02
"""Below the least score, for entries whose exact score may reach it."""
_SCOPES_KEPT = 64
_SLICE = 50
"""Entries that are replaced in one piece: one takes about .15 ms."""


@dataclass(frozen=True, slots=True)
class Ranked:
    """One match; `matched` has the words of the query that it contains, as they were written."""

    entry: Entry
    probability: float
    cosine: float
    matched: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Ranking:
    """Slots of every match, best first.

    Args:
        first_page: how many come before the scores fall off.
    """

    slots: NDArray[np.intp]
    probabilities: Floats
    cosines: Floats
    first_page: int = 0

    def __len__(self) -> int:
        return len(self.slots)


@dataclass(frozen=True, slots=True)
class Difference:
    """What changes of a service.

    Args:
        gone: of entries that are indexed and no longer offered.
        changed: entries that are new, or not indexed so.
    """

    gone: Sequence[Key]
    changed: Mapping[Key, Entry]


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


class Index:
    """The entries of all services, with their vectors and words.

    Args:
        model: what makes the vectors (`Embedder.model`).

    Raises:
        ValueError: the index was not fitted to this model.
    """

    def __init__(self, model: str) -> None:
        self._cohort = load_cohort(model)
        self._gate = load_gate(model)
        self._entries: list[Entry | None] = []
        self._free: list[int] = []
        self._slots: dict[Key, int] = {}
        self._owned: dict[str, dict[Key, Entry]] = {}
        self._lexicon = Lexicon()
        self._vocabulary = Vocabulary()
        self._vectors = EntryVectors(self._cohort.penalty)
        self._literal = LiteralMatches()
        self._columns = Columns()
        self._scopes: LRUCache[ScopeKey, Scope] = LRUCache(_SCOPES_KEPT)
        self.version = 0

    def sizes(self) -> Counter[str]:
        """The number of entries of each kind."""
        return self._columns.sizes()

    def __len__(self) -> int:
        return len(self._slots)

    def entries(self, service: str) -> Mapping[Key, Entry]:
        """The entries of a service."""
        return self._owned.get(service, {})

    @property
    def services(self) -> list[str]:
        """Services with entries."""
        return list(self._owned)

    def replace(
        self, service: str, entries: Sequence[Entry], vectors: Callable[[Entry], list[Vector]]
    ) -> None:
        """Replace the entries of a service in one step; see `replacing`."""
        for _ in self.replacing(service, self.difference(service, entries), vectors):
            pass

    def difference(self, service: str, entries: Sequence[Entry]) -> Difference:
        """Compare what a service offers with what is indexed; in a thread, where it is much."""
        owned = self._owned.get(service, {})
        after = {entry.key: entry for entry in entries}
        return Difference(
            [key for key in owned if key not in after],
            {
                key: entry
                for key, entry in after.items()
                if (owned[key].digest != entry.digest if key in owned else key not in self._slots)
            },  # fmt: skip  (the first service with a key keeps it)
        )

    def replacing(
        self, service: str, difference: Difference, vectors: Callable[[Entry], list[Vector]]
    ) -> Iterator[None]:
        """Replace the entries of a service in slices of a few milliseconds.

        Between two slices the index may be searched: each entry is there in its old or in its new
        form, and unchanged entries stay as they are.

        Args:
            vectors: called with each new entry; returns the vector of its text, then those of its
                examples.
        """
        owned = self._owned.setdefault(service, {})
        changed = difference.changed
        for number, key in enumerate((*difference.gone, *changed), 1):
            if key in owned:
                self._remove(owned.pop(key))
            if key in changed:
                self._add(changed[key], vectors(changed[key]))
                owned[key] = changed[key]
            if number % _SLICE == 0:
                self._has_changed()
                yield
        if not owned:
            del self._owned[service]
        self._has_changed()

    def _has_changed(self) -> None:
        self._scopes.clear()
        self.version += 1

    def _add(self, entry: Entry, vectors: list[Vector]) -> None:
        slot = self._free.pop() if self._free else len(self._entries)
        if slot == len(self._entries):
            self._entries.append(None)
        self._entries[slot] = entry
        self._slots[entry.key] = slot
        self._columns.put(slot, entry)
        self._vectors.put(slot, vectors)
        counts = entry.count_terms()
        self._lexicon.add(slot, counts)
        self._vocabulary.add(slot, entry.words(counts))
        self._literal.add(slot, entry)

    def _remove(self, entry: Entry) -> None:
        slot = self._slots.pop(entry.key)
        self._entries[slot] = None
        self._free.append(slot)
        self._columns.clear(slot, entry.key)
        self._vectors.clear(slot)
        counts = entry.count_terms()
        self._lexicon.remove(slot, counts)
        self._vocabulary.remove(slot, entry.words(counts))
        self._literal.remove(slot, entry)

    def scope(self, actor: Actor, kind: Kind, toolsets: Sequence[str] = ()) -> Scope:
        """The entries of this kind and of these toolsets (all, if empty) that the actor may use."""
        key = self._columns.scope_key(actor, kind, toolsets)
        scope = self._scopes.get(key)
        if scope is None:
            mask = self._columns.visible(key)
            scope = Scope(key, self._lexicon.lengths(mask), self._columns.fingerprint(mask))
            self._scopes[key] = scope
        return scope

    def is_known(self, term: str, scope: Scope) -> bool:
        """Whether a visible entry contains the stem."""
        return self._lexicon.frequency(term, scope.mask) > 0

    def vocabulary(self, scope: Scope) -> list[str]:
        """The words of the visible entries, sorted."""
        if scope.vocabulary is None:
            scope.vocabulary = self._vocabulary.visible(scope.mask)
        return scope.vocabulary

    def facets(
        self, query: ParsedQuery, vectors: Mapping[str, Vector], scope: Scope
    ) -> list[Facet]:
        """Each of the query's texts, compared with every slot; cosines are estimated.

        Args:
            vectors: text → vector, for each of the query's texts.
        """
        given = [vectors[text] for text in query.texts]
        found = []
        for text, vector, cosine in zip(
            query.texts, given, self._vectors.estimate(given), strict=True
        ):
            terms = query.terms(text)
            circumstances = Circumstances(
                nearness=self._cohort.nearness(vector),
                terms=len(set(terms)),
                corrected=query.corrections(text),
                entries=scope.number,
            )
            matches = self._lexicon.match(terms, scope.lengths)
            found.append(Facet(cosine, matches, circumstances))
        return found

    def rank(self, query: ParsedQuery, vectors: Mapping[str, Vector], scope: Scope) -> Ranking:
        """Rank the visible entries that probably serve the query.

        Args:
            vectors: text → vector, for each of the query's texts.
        """
        judged = self._judge(query, vectors, scope, MIN_SCORE - _MARGIN)
        if judged is None:
            return _NOTHING
        number = int(np.count_nonzero(judged.verdict.returned & (judged.scores >= MIN_SCORE)))
        rows = judged.rows[:number]
        return Ranking(
            slots=judged.slots[rows],
            probabilities=judged.verdict.probabilities[:number],
            cosines=np.max([facet.cosine[rows] for facet in judged.facets], axis=0),
            first_page=min(number, judged.verdict.first_page),
        )

    def explain(
        self, query: ParsedQuery, vectors: Mapping[str, Vector], scope: Scope, most: int
    ) -> list[Considered]:
        """What decides about the best visible entries, left out or not; see explaining.py.

        Args:
            vectors: text → vector, for each of the query's texts.
            most: number of entries, `REFINED` at most.
        """
        judged = self._judge(query, vectors, scope, -np.inf)
        if judged is None:
            return []
        return [
            considered(
                entry,
                row,
                place,
                score=float(judged.scores[place]),
                literal=judged.literal.get(slot, 0.0),
                verdict=judged.verdict,
                facets=judged.facets,
            )
            for place, row in enumerate(judged.rows[:most].tolist())
            if (entry := self._entries[slot := int(judged.slots[row])]) is not None
        ]

    def _judge(
        self, query: ParsedQuery, vectors: Mapping[str, Vector], scope: Scope, least: float
    ) -> _Judged | None:
        """The best visible entries with exact scores; None if no estimate reaches the least one."""
        if not scope.number:
            return None
        facets = self.facets(query, vectors, scope)
        best = [facet.best(scope.mask) for facet in facets]
        coverage = facets[0].matches.coverage
        literal = self._literal.bonuses(query.whole, self._entries, coverage, scope.mask)
        estimates = _combined(query, facets, best)
        for slot, bonus in literal.items():
            estimates[slot] += bonus
        slots = np.flatnonzero(scope.mask & (estimates >= least))
        if not len(slots):
            return None
        if len(slots) > REFINED:
            keys = self._keys(slots, estimates[slots])
            slots = slots[np.argpartition(keys, REFINED)[:REFINED]]
        exact = [
            facet.at(slots, self._vectors.cosines(slots, vectors[text]))
            for text, facet in zip(query.texts, facets, strict=True)
        ]
        best = [
            replace(estimated, cosine=float(facet.cosine.max()))
            for facet, estimated in zip(exact, best, strict=True)
        ]
        terms = facets[0].circumstances.terms
        scores = supported(_combined(query, exact, best), self._columns.toolsets(slots), terms)
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
                    self.agreement(facet, slots),
                    facet.circumstances,
                ).max()
            )
            for text, facet in zip(query.texts, facets, strict=True)
            if query.is_evidence(text)
        )

    def agreement(self, facet: Facet, slots: NDArray[np.intp]) -> Floats:
        """By slot, how near its entry is to the kind of tool that the text of the facet wants."""
        return self._vectors.agreement(slots, facet.circumstances.nearness.expected)

    def page(self, query: str, ranking: Ranking, offset: int, limit: int) -> list[Ranked]:
        """A page of a ranking. The index must not have changed since the ranking was made."""
        part = slice(offset, offset + limit)
        slots = ranking.slots[part]
        written = [(word, self._lexicon.contains(term, slots)) for word, term in word_terms(query)]
        columns = (
            slots.tolist(),
            ranking.probabilities[part].tolist(),
            ranking.cosines[part].tolist(),
        )
        return [
            Ranked(
                entry,
                probability,
                cosine,
                tuple(dict.fromkeys(w for w, found in written if found[row])),
            )
            for row, (slot, probability, cosine) in enumerate(zip(*columns, strict=True))
            if (entry := self._entries[slot]) is not None
        ]

    def _keys(self, slots: NDArray[np.intp], scores: Floats) -> NDArray[np.int64]:
        # One whole number for both: sorting by two arrays takes ten times as long.
        keys = np.rint(scores * -10_000).astype(np.int64) << 32
        return keys + self._columns.place[slots]


def _combined(query: ParsedQuery, facets: Sequence[Facet], best: Sequence[Best]) -> Floats:
    """One score by slot, of the facets of all texts."""
    number = len(query.sentences)
    scores = fused(facets, best)
    return combine(whole=scores[0], sentences=scores[1 : number + 1], readings=scores[number + 1 :])
