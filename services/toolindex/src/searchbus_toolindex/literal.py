"""Entries whose name or words a query repeats literally: they stand before all others."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from .entries import Entry, phrase
from .lexicon import Floats, Mask
from .words import split_words

__all__ = ["LiteralMatches"]

_EXACT, _NAME, _PHRASE, _MENTION = 8.0, 6.0, 4.0, 2.0
"""What a literal match adds; other scores are at most 1, so that it stands before them."""
_QUOTES = "\"'`“”"


class LiteralMatches:
    """The names of entries, by their words."""

    def __init__(self) -> None:
        self._slots: dict[str, set[int]] = {}

    def add(self, slot: int, entry: Entry) -> None:
        """Add the names of an entry."""
        for name in entry.names:
            self._slots.setdefault(phrase(name), set()).add(slot)

    def remove(self, slot: int, entry: Entry) -> None:
        """Remove the names of an entry."""
        for name in {phrase(name) for name in entry.names}:
            slots = self._slots[name]
            slots.discard(slot)
            if not slots:
                del self._slots[name]

    def bonuses(
        self, query: str, entries: Sequence[Entry | None], coverage: Floats, visible: Mask
    ) -> dict[int, float]:
        """What a literal match adds to the score of each slot that has one.

        Args:
            entries: by slot.
            coverage: by slot, the share of the query's words that its entry contains.
        """
        found: dict[int, float] = {}

        def add(slot: int, bonus: float) -> None:
            if visible[slot]:
                found[slot] = max(found.get(slot, 0.0), bonus)

        wanted = phrase(query)
        stripped = query.strip().strip(_QUOTES)
        for slot in self._slots.get(wanted, ()):
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
        """The slots whose name stands in the query, as an identifier.

        The plain word "search" does not mention the tool of that name.
        """
        number = len(split_words(query))
        found: set[int] = set()
        for token in query.split():
            token = token.strip(f".,;:!?()[]{_QUOTES}")
            if 1 < len(split_words(token)) < number:
                found |= self._slots.get(phrase(token), set())
        return found
