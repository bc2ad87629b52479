"""The words of entries, by slot: BM25, the words as written, and literal matches.

BM25 (Robertson and Zaragoza 2009; k1 1.2, b .75) counts document frequencies and the average length
over the visible slots only, so that entries which the caller may not see have no effect on a score.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from .entries import IndexEntry, phrase
from .words import split_words

K1 = 1.2
B = 0.75
_EXACT, _NAME, _PHRASE, _MENTION = 8.0, 6.0, 4.0, 2.0
"""What a literal match adds; other scores are at most 1, so that it stands before them."""
_QUOTES = "\"'`“”"
Floats = NDArray[np.float32]
Mask = NDArray[np.bool_]


@dataclass(slots=True)
class _Posting:
    slots: array[int] = field(default_factory=lambda: array("i"))
    counts: array[int] = field(default_factory=lambda: array("i"))
    cached: tuple[NDArray[np.intc], Floats] | None = None

    def arrays(self) -> tuple[NDArray[np.intc], Floats]:
        if self.cached is None:
            counts = np.array(self.counts, dtype=np.float32)
            self.cached = (np.array(self.slots, dtype=np.intc), counts)
        return self.cached


@dataclass(frozen=True, slots=True)
class Lengths:
    """What BM25 counts over visible slots: their number, and how length weakens each."""

    visible: Mask
    number: int
    norms: Floats


@dataclass(frozen=True, slots=True)
class Matches:
    """By slot: the BM25 score, and the share of the query's terms found, weighted by idf (0..1)."""

    scores: Floats
    coverage: Floats


class Lexicon:
    """An inverted index from terms to slots."""

    def __init__(self) -> None:
        self._postings: dict[str, _Posting] = {}
        self._lengths: Floats = np.zeros(64, dtype=np.float32)

    def add(self, slot: int, counts: Mapping[str, int]) -> None:
        """Add the terms of an entry in a free slot."""
        if slot >= len(self._lengths):
            self._lengths = np.resize(self._lengths, max(slot + 1, 2 * len(self._lengths)))
        self._lengths[slot] = sum(counts.values())
        for term, count in counts.items():
            posting = self._postings.get(term)
            if posting is None:
                posting = self._postings[term] = _Posting()
            posting.slots.append(slot)
            posting.counts.append(count)
            posting.cached = None

    def remove(self, slot: int, counts: Mapping[str, int]) -> None:
        """Remove the terms of a slot; `counts` are those with which it was added."""
        for term in counts:
            posting = self._postings[term]
            where = posting.slots.index(slot)
            posting.slots.pop(where)
            posting.counts.pop(where)
            posting.cached = None
            if not posting.slots:
                del self._postings[term]

    def frequency(self, term: str, visible: Mask) -> int:
        """The number of visible slots that contain the term."""
        posting = self._postings.get(term)
        return 0 if posting is None else int(np.count_nonzero(visible[posting.arrays()[0]]))

    def contains(self, term: str, slots: NDArray[np.intp]) -> Mask:
        """Whether each of these slots contains the term."""
        found = np.zeros(len(self._lengths), dtype=bool)
        posting = self._postings.get(term)
        if posting is not None:
            found[posting.arrays()[0]] = True
        return found[slots]

    def lengths(self, visible: Mask) -> Lengths:
        """Counts over these slots, for `match`."""
        number = int(np.count_nonzero(visible))
        lengths = self._lengths[: len(visible)]
        mean = float(lengths[visible].mean()) if number else 1.0
        norms: Floats = K1 * (1 - B + B * lengths / max(1.0, mean))
        return Lengths(visible, number, norms)

    def match(self, query: Iterable[str], lengths: Lengths) -> Matches:
        """Score the slots; hidden ones have scores too, which the caller must ignore."""
        size = len(lengths.visible)
        scores = np.zeros(size, dtype=np.float32)
        coverage = np.zeros(size, dtype=np.float32)
        number = lengths.number
        if number == 0:
            return Matches(scores, coverage)
        total = 0.0
        for term in dict.fromkeys(query):
            frequency = self.frequency(term, lengths.visible)
            idf = math.log(1 + (number - frequency + 0.5) / (frequency + 0.5))
            total += idf
            if frequency:
                slots, counts = self._postings[term].arrays()
                scores[slots] += idf * counts * (K1 + 1) / (counts + lengths.norms[slots])
                coverage[slots] += idf
        if total:
            coverage /= total
        return Matches(scores, coverage)


class Vocabulary:
    """Which slots contain a word as it is written."""

    def __init__(self) -> None:
        self._slots: dict[str, array[int]] = {}

    def add(self, slot: int, words: Iterable[str]) -> None:
        """Add the words of an entry in a free slot."""
        for word in words:
            slots = self._slots.get(word)
            if slots is None:
                slots = self._slots[word] = array("i")
            slots.append(slot)

    def remove(self, slot: int, words: Iterable[str]) -> None:
        """Remove the words of a slot; the same with which it was added."""
        for word in words:
            slots = self._slots[word]
            slots.remove(slot)
            if not slots:
                del self._slots[word]

    def slots(self, word: str) -> Sequence[int]:
        """The slots that contain a word."""
        return self._slots.get(word, ())

    def visible(self, mask: Mask) -> list[str]:
        """The words of the visible slots, sorted."""
        seen = mask.tolist()
        return sorted(
            word
            for word, slots in self._slots.items()
            if seen[slots[0]] or mask[np.frombuffer(slots, dtype=np.intc)].any()
        )


class LiteralMatches:
    """Entries whose name or words a query repeats literally: they stand before all others."""

    def __init__(self) -> None:
        self._names = Vocabulary()

    def add(self, slot: int, entry: IndexEntry) -> None:
        """Add the names of an entry."""
        self._names.add(slot, {phrase(name) for name in entry.names})

    def remove(self, slot: int, entry: IndexEntry) -> None:
        """Remove the names of an entry."""
        self._names.remove(slot, {phrase(name) for name in entry.names})

    def has_name(self, query: str, visible: Mask) -> bool:
        """Whether the query is the name of a visible entry."""
        return any(visible[slot] for slot in self._names.slots(phrase(query)))

    def bonuses(
        self, query: str, entries: Sequence[IndexEntry | None], coverage: Floats, visible: Mask
    ) -> dict[int, float]:
        """What a literal match adds to the score of each slot that has one, by its entry and the
        share of the query's words that it contains."""
        found: dict[int, float] = {}

        def add(slot: int, bonus: float) -> None:
            if visible[slot]:
                found[slot] = max(found.get(slot, 0.0), bonus)

        wanted = phrase(query)
        stripped = query.strip().strip(_QUOTES)
        for slot in self._names.slots(wanted):
            entry = entries[slot]
            add(slot, _EXACT if entry and stripped in entry.names else _NAME)
        for slot in self._mentioned(query):
            add(slot, _MENTION)
        if len(split_words(query)) > 1:
            every_word: NDArray[np.intp] = np.flatnonzero(visible & (coverage > 0.999))
            for slot in every_word.tolist():
                entry = entries[slot]
                if entry is not None and wanted in entry.phrases:
                    add(slot, _PHRASE)
        return found

    def _mentioned(self, query: str) -> set[int]:
        """The slots whose name stands in the query as an identifier; a plain "search" is none."""
        number = len(split_words(query))
        found: set[int] = set()
        for token in query.split():
            token = token.strip(f".,;:!?()[]{_QUOTES}")
            if 1 < len(split_words(token)) < number:
                found.update(self._names.slots(phrase(token)))
        return found
