"""The words of the entries as they are written, for the correction of typing errors."""

from __future__ import annotations

from array import array
from collections.abc import Iterable

import numpy as np

from .lexicon import Mask

__all__ = ["Vocabulary"]


class Vocabulary:
    """Which slots contain a word."""

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

    def visible(self, mask: Mask) -> list[str]:
        """The words of the visible slots, sorted."""
        seen = mask.tolist()
        return sorted(
            word
            for word, slots in self._slots.items()
            if seen[slots[0]] or mask[np.frombuffer(slots, dtype=np.intc)].any()
        )
