"""What one class of callers sees, and what is counted over it once."""

from __future__ import annotations

from dataclasses import dataclass

from .lexicon import Lengths, Mask

__all__ = ["Scope", "ScopeKey"]

ScopeKey = tuple[int, tuple[int, ...], tuple[int, ...]]


@dataclass(slots=True, eq=False)
class Scope:
    """The entries that callers with the same roles see; valid until the index changes.

    Args:
        key: equal for callers that see the same.
        lengths: what BM25 counts over the visible slots.
        fingerprint: a hash of the visible entries: equal at every replica, independent of hidden
            entries.
        vocabulary: their words, sorted; made at first use.
    """

    key: ScopeKey
    lengths: Lengths
    fingerprint: str
    vocabulary: list[str] | None = None

    @property
    def mask(self) -> Mask:
        """By slot, whether it is visible."""
        return self.lengths.visible

    @property
    def number(self) -> int:
        """Of visible slots."""
        return self.lengths.number
