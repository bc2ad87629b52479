"""The index: entries in slots, ranked for a query among those that a caller may see.

    index = Index()
    index.replace("weather", entries, vectors_of)
    ranking = index.rank(query, vectors, index.visible(actor, "tool"))

Every number that a rank depends on is counted over the visible slots only, so that hidden entries
have no effect. Not thread-safe; use it on the event loop. Ranking 10,000 tools takes a millisecond
or two.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from cachetools import LRUCache
from numpy.typing import NDArray

from searchbus_contracts import Actor
from searchbus_contracts.toolindex import Kind
from searchbus_vectors import DIMENSIONS, Vector

from .columns import Columns
from .entries import Entry, Key, phrase
from .lexicon import Lexicon, Mask
from .query import ParsedQuery
from .scoring import FLOOR, MIN_SCORE, Facet, combine, fused
from .words import split_words, terms, word_terms

__all__ = ["Index", "Ranked", "Ranking", "matched_words"]

_FINGERPRINTS_KEPT = 256
_EXACT, _NAME, _PHRASE, _MENTION = 8.0, 6.0, 4.0, 2.0
"""What a literal match adds; other scores are at most 1, so that it stands before them."""


@dataclass(frozen=True, slots=True)
class Ranked:
    """One match."""

    entry: Entry
    score: float
    cosine: float


@dataclass(frozen=True, slots=True)
class Ranking:
    """Slots of every match, best first, with their scores."""

    slots: NDArray[np.intp]
    scores: NDArray[np.float32]
    cosines: NDArray[np.float32]

    def __len__(self) -> int:
        return len(self.slots)


_NOTHING = Ranking(
    np.zeros(0, dtype=np.intp), np.zeros(0, dtype=np.float32), np.zeros(0, dtype=np.float32)
)


class Index:
    """The entries of all services, with their vectors and words."""

    def __init__(self) -> None:
        self._entries: list[Entry | None] = []
        self._free: list[int] = []
        self._slots: dict[Key, int] = {}
        self._owned: dict[str, dict[Key, Entry]] = {}
        self._lexicon = Lexicon()
        self._vectors: NDArray[np.float32] = np.zeros((64, DIMENSIONS), dtype=np.float32)
        self._examples: dict[int, list[Vector]] = {}
        self._example_slots: NDArray[np.intp] = np.zeros(0, dtype=np.intp)
        self._example_vectors: NDArray[np.float32] = np.zeros((0, DIMENSIONS), dtype=np.float32)
        self._by_name: dict[str, set[int]] = {}
        self._columns = Columns()
        self._fingerprints: LRUCache[bytes, str] = LRUCache(_FINGERPRINTS_KEPT)
        self.version = 0

    def sizes(self) -> Counter[str]:
        """The number of entries of each kind."""
        return Counter(key[0] for key in self._slots)

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
        """Replace the entries of a service in one step; unchanged entries stay as they are.

        Args:
            vectors: called with each new entry; returns the vector of its text, then those of its
                examples.
        """
        before = self._owned.get(service, {})
        after = {entry.key: entry for entry in entries}
        for key, entry in before.items():
            if key not in after or after[key].digest != entry.digest:
                self._remove(entry)
        for key, entry in after.items():
            if key not in self._slots:  # the first service with a key keeps it
                self._add(entry, vectors(entry))
        kept = {key: self._entries[self._slots[key]] for key in after}
        if after:
            self._owned[service] = {k: e for k, e in kept.items() if e is not None}
        else:
            self._owned.pop(service, None)
        self._stack_examples()
        self._columns = Columns.of(self._entries)
        self._fingerprints.clear()
        self.version += 1

    def _add(self, entry: Entry, vectors: list[Vector]) -> None:
        slot = self._free.pop() if self._free else len(self._entries)
        if slot == len(self._entries):
            self._entries.append(None)
            if slot >= len(self._vectors):
                grown = np.zeros((2 * len(self._vectors), DIMENSIONS), dtype=np.float32)
                grown[: len(self._vectors)] = self._vectors
                self._vectors = grown
        self._entries[slot] = entry
        self._slots[entry.key] = slot
        self._vectors[slot] = vectors[0]
        if len(vectors) > 1:
            self._examples[slot] = vectors[1:]
        self._lexicon.add(slot, entry.counts)
        for name in entry.names:
            self._by_name.setdefault(phrase(name), set()).add(slot)

    def _remove(self, entry: Entry) -> None:
        slot = self._slots.pop(entry.key)
        self._entries[slot] = None
        self._free.append(slot)
        self._vectors[slot] = 0
        self._examples.pop(slot, None)
        self._lexicon.remove(slot, entry.counts)
        for name in entry.names:
            self._by_name[phrase(name)].discard(slot)

    def _stack_examples(self) -> None:
        pairs = [(slot, vector) for slot, some in self._examples.items() for vector in some]
        self._example_slots = np.array([slot for slot, _ in pairs], dtype=np.intp)
        self._example_vectors = (
            np.stack([vector for _, vector in pairs])
            if pairs
            else np.zeros((0, DIMENSIONS), dtype=np.float32)
        )

    def visible(self, actor: Actor, kind: Kind, toolsets: Sequence[str] = ()) -> Mask:
        """The slots of this kind and of these toolsets (all, if empty) that the actor may use."""
        return self._columns.visible(actor, kind, toolsets)

    def fingerprint(self, visible: Mask) -> str:
        """A hash of the visible entries: equal at every replica, independent of hidden entries."""
        key = visible.tobytes()
        known = self._fingerprints.get(key)
        if known is None:
            digests = sorted(entry.digest for entry in self._visible_entries(visible))
            known = self._fingerprints[key] = hashlib.sha256(b"".join(digests)).hexdigest()[:16]
        return known

    def is_known(self, term: str, visible: Mask) -> bool:
        """Whether a visible entry contains the stem."""
        return self._lexicon.frequency(term, visible) > 0

    def vocabulary(self, visible: Mask) -> list[str]:
        """The words of the visible entries, sorted."""
        return sorted(set().union(*(entry.words for entry in self._visible_entries(visible))))

    def _visible_entries(self, visible: Mask) -> Iterator[Entry]:
        for entry, seen in zip(self._entries, visible, strict=True):
            if entry is not None and seen:
                yield entry

    def rank(self, query: ParsedQuery, vectors: Mapping[str, Vector], visible: Mask) -> Ranking:
        """Rank the visible entries; the ranking is empty if the best one has too little evidence.

        Args:
            vectors: text → vector, for each of the query's texts.
        """
        if not visible.any():
            return _NOTHING
        facets = [self._facet(text, vectors[text], visible) for text in query.texts]
        number = len(query.sentences)
        score = combine(
            whole=fused(facets[0], visible),
            sentences=[fused(facet, visible) for facet in facets[1 : number + 1]],
            readings=[fused(facet, visible) for facet in facets[number + 1 :]],
        )
        literal = self._literal(query.whole, facets[0], visible)
        evidence = np.max([facet.evidence for facet in facets], axis=0)
        if not literal and float(evidence[visible].max()) < FLOOR:
            return _NOTHING
        for slot, bonus in literal.items():
            score[slot] += bonus
        score = np.round(score, 4)
        slots = np.flatnonzero(visible & (score >= MIN_SCORE))
        order = slots[np.lexsort((self._columns.place[slots], -score[slots]))]
        cosine = np.max([facet.cosine for facet in facets], axis=0)
        return Ranking(order, score[order], cosine[order])

    def page(self, ranking: Ranking, offset: int, limit: int) -> list[Ranked]:
        """A page of a ranking. The index must not have changed since the ranking was made."""
        part = slice(offset, offset + limit)
        columns = (ranking.slots[part], ranking.scores[part], ranking.cosines[part])
        return [
            Ranked(entry, float(score), float(cosine))
            for slot, score, cosine in zip(*columns, strict=True)
            if (entry := self._entries[slot]) is not None
        ]

    def _facet(self, text: str, vector: Vector, visible: Mask) -> Facet:
        size = len(self._entries)
        cosine = _cosines(self._vectors[:size], vector)
        if len(self._example_slots):
            np.maximum.at(cosine, self._example_slots, _cosines(self._example_vectors, vector))
        return Facet(cosine, self._lexicon.match(terms(text), visible))

    def _literal(self, query: str, facet: Facet, visible: Mask) -> dict[int, float]:
        """Slots whose name or words the query repeats literally → what that adds to the score."""
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


def _cosines(vectors: NDArray[np.float32], vector: Vector) -> NDArray[np.float32]:
    """The cosine of each row with a vector; equal rows give equal bits, wherever they stand.

    BLAS (`@`) adds up some rows in another order than others, so that replicas whose slots differ
    got scores that differ in the last digit shown. It is no quicker at 10,000 rows.
    """
    cosines: NDArray[np.float32] = np.einsum("ij,j->i", vectors, vector)
    return cosines


def matched_words(query: str, entry: Entry) -> tuple[str, ...]:
    """The words of a query that an entry contains, as they were written."""
    return tuple(dict.fromkeys(word for word, term in word_terms(query) if term in entry.counts))
