"""The index: entries in slots, ranked for a query among those that a caller may see.

    index = Index()
    index.replace("weather", entries, vectors_of)
    ranking = index.rank(query, vectors, index.scope(actor, "tool"))

Every number that a rank depends on is counted over the visible slots only, so that hidden entries
have no effect. All of them are scored with estimated cosines, the best 200 again with exact ones.
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
from searchbus_contracts.toolindex import Kind
from searchbus_vectors import Vector

from .columns import Columns
from .entries import Entry, Key, phrase
from .lexicon import Floats, Lexicon
from .query import ParsedQuery
from .scope import Scope, ScopeKey
from .scoring import FLOOR, Best, Facet, combine, fused, least_score
from .vectors import EntryVectors
from .vocabulary import Vocabulary
from .words import split_words, word_terms

__all__ = ["Index", "Ranked", "Ranking"]

REFINED = 200
"""How many entries of a ranking have exact scores; estimated cosines are off by about .001."""
_MARGIN = 0.02
"""Below the least score, for entries whose exact score may reach it."""
_SCOPES_KEPT = 64
_SLICE = 50
"""Entries that are replaced in one piece: one takes about .15 ms."""
_EXACT, _NAME, _PHRASE, _MENTION = 8.0, 6.0, 4.0, 2.0
"""What a literal match adds; other scores are at most 1, so that it stands before them."""


@dataclass(frozen=True, slots=True)
class Ranked:
    """One match; `matched` has the words of the query that it contains, as they were written."""

    entry: Entry
    score: float
    cosine: float
    matched: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Ranking:
    """Slots of every match, best first, with their scores."""

    slots: NDArray[np.intp]
    scores: Floats
    cosines: Floats

    def __len__(self) -> int:
        return len(self.slots)


_NOTHING = Ranking(np.zeros(0, dtype=np.intp), *np.zeros((2, 0), dtype=np.float32))


class Index:
    """The entries of all services, with their vectors and words."""

    def __init__(self) -> None:
        self._entries: list[Entry | None] = []
        self._free: list[int] = []
        self._slots: dict[Key, int] = {}
        self._owned: dict[str, dict[Key, Entry]] = {}
        self._lexicon = Lexicon()
        self._vocabulary = Vocabulary()
        self._vectors = EntryVectors()
        self._by_name: dict[str, set[int]] = {}
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
        for _ in self.replacing(service, entries, vectors):
            pass

    def replacing(
        self, service: str, entries: Sequence[Entry], vectors: Callable[[Entry], list[Vector]]
    ) -> Iterator[None]:
        """Replace the entries of a service in slices of a few milliseconds.

        Between two slices the index may be searched: each entry is there in its old or in its new
        form, and unchanged entries stay as they are.

        Args:
            vectors: called with each new entry; returns the vector of its text, then those of its
                examples.
        """
        owned = self._owned.setdefault(service, {})
        after = {entry.key: entry for entry in entries}
        gone = [key for key in owned if key not in after]
        changed = [
            key
            for key, entry in after.items()
            if (owned[key].digest != entry.digest if key in owned else key not in self._slots)
        ]  # fmt: skip  (the first service with a key keeps it)
        for number, key in enumerate((*gone, *changed), 1):
            if key in owned:
                self._remove(owned.pop(key))
            if key in after:
                self._add(after[key], vectors(after[key]))
                owned[key] = after[key]
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
        for name in entry.names:
            self._by_name.setdefault(phrase(name), set()).add(slot)

    def _remove(self, entry: Entry) -> None:
        slot = self._slots.pop(entry.key)
        self._entries[slot] = None
        self._free.append(slot)
        self._columns.clear(slot, entry.key)
        self._vectors.clear(slot)
        counts = entry.count_terms()
        self._lexicon.remove(slot, counts)
        self._vocabulary.remove(slot, entry.words(counts))
        for name in {phrase(name) for name in entry.names}:
            slots = self._by_name[name]
            slots.discard(slot)
            if not slots:
                del self._by_name[name]

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

    def rank(self, query: ParsedQuery, vectors: Mapping[str, Vector], scope: Scope) -> Ranking:
        """Rank the visible entries; the ranking is empty if the best one has too little evidence.

        Args:
            vectors: text → vector, for each of the query's texts.
        """
        if not scope.number:
            return _NOTHING
        given = [vectors[text] for text in query.texts]
        facets = [
            Facet(cosine, self._lexicon.match(query.terms(text), scope.lengths))
            for text, cosine in zip(query.texts, self._vectors.estimate(given), strict=True)
        ]
        best = [facet.best(scope.mask) for facet in facets]
        literal = self._literal(query.whole, facets[0], scope)
        score = _combined(query, facets, best)
        least = least_score(score[scope.mask])
        for slot, bonus in literal.items():
            score[slot] += bonus
        slots = np.flatnonzero(scope.mask & (score >= least - _MARGIN))
        slots = slots[self._order(slots, score[slots])]
        near, far = slots[:REFINED], slots[REFINED:]
        exact = [
            facet.at(near, self._vectors.cosines(near, vector))
            for facet, vector in zip(facets, given, strict=True)
        ]
        if not len(near) or (not literal and _evidence(query, exact, best) < FLOOR):
            return _NOTHING
        best = [
            replace(estimated, cosine=float(facet.cosine.max()))
            for facet, estimated in zip(exact, best, strict=True)
        ]
        refined = _combined(query, exact, best)
        refined += np.array([literal.get(slot, 0.0) for slot in near.tolist()], dtype=np.float32)
        refined = np.round(refined, 4)
        order = self._order(near, refined)
        refined = refined[order]
        # Estimates follow, never above the last exact score.
        scores = np.concatenate([refined, np.minimum(np.round(score[far], 4), refined[-1])])
        cosines = np.concatenate(
            [_cosine(exact)[order], np.max([facet.cosine[far] for facet in facets], axis=0)]
        )
        kept = scores >= least
        slots = np.concatenate([near[order], far])
        return Ranking(slots[kept], scores[kept], cosines[kept])

    def page(self, query: str, ranking: Ranking, offset: int, limit: int) -> list[Ranked]:
        """A page of a ranking. The index must not have changed since the ranking was made."""
        part = slice(offset, offset + limit)
        slots = ranking.slots[part]
        written = [(word, self._lexicon.contains(term, slots)) for word, term in word_terms(query)]
        columns = (slots.tolist(), ranking.scores[part].tolist(), ranking.cosines[part].tolist())
        return [
            Ranked(
                entry, score, cosine, tuple(dict.fromkeys(w for w, found in written if found[row]))
            )
            for row, (slot, score, cosine) in enumerate(zip(*columns, strict=True))
            if (entry := self._entries[slot]) is not None
        ]

    def _order(self, slots: NDArray[np.intp], scores: Floats) -> NDArray[np.intp]:
        """The order of slots, best first; equal scores by kind, toolset and name."""
        # One whole number for both: sorting by two arrays takes ten times as long.
        keys = np.rint(scores * -10_000).astype(np.int64) << 32
        return np.argsort(keys + self._columns.place[slots])

    def _literal(self, query: str, facet: Facet, scope: Scope) -> dict[int, float]:
        """Slots whose name or words the query repeats literally → what that adds to the score."""
        visible = scope.mask
        found: dict[int, float] = {}
        wanted = phrase(query)
        stripped = query.strip().strip("\"'`“”")

        def add(slot: int, bonus: float) -> None:
            if visible[slot]:
                found[slot] = max(found.get(slot, 0.0), bonus)

        for slot in self._by_name.get(wanted, ()):
            entry = self._entries[slot]
            add(slot, _EXACT if entry and stripped in entry.names else _NAME)
        words = split_words(query)
        for token in query.split():
            token = token.strip(".,;:!?()[]\"'`“”")
            # The plain word "search" does not mention the tool of that name; an identifier does.
            if len(split_words(token)) > 1 and len(words) > len(split_words(token)):
                for slot in self._by_name.get(phrase(token), ()):
                    add(slot, _MENTION)
        if len(words) > 1:
            for slot in np.flatnonzero(visible & (facet.matches.coverage > 0.999)).tolist():
                entry = self._entries[slot]
                if entry is not None and wanted in entry.phrases:
                    add(slot, _PHRASE)
        return found


def _combined(query: ParsedQuery, facets: Sequence[Facet], best: Sequence[Best]) -> Floats:
    """One score by slot, of the facets of all texts."""
    number = len(query.sentences)
    scores = [fused(facet, found) for facet, found in zip(facets, best, strict=True)]
    return combine(whole=scores[0], sentences=scores[1 : number + 1], readings=scores[number + 1 :])


def _evidence(query: ParsedQuery, facets: Sequence[Facet], best: Sequence[Best]) -> float:
    return max(
        float(facet.evidence(found.typical).max())
        for text, facet, found in zip(query.texts, facets, best, strict=True)
        if query.is_evidence(text)
    )


def _cosine(facets: Sequence[Facet]) -> Floats:
    cosine: Floats = np.max([facet.cosine for facet in facets], axis=0)
    return cosine
