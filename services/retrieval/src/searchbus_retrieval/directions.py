"""Words that exclude each other: to raise is not to lower.

directions = Directions((("raise", "increase"), ("lower", "cut")), "the rate cut to 1 percent")
directions.agree("to lower the rate to 1 percent")      # True
directions.agree("to raise the rate to 1 percent")      # False
"""

from __future__ import annotations

from collections.abc import Sequence

from searchbus_vectors import terms

__all__ = ["Directions"]


class Directions:
    """What a question says of the direction of a change.

    Args:
        groups: of words that mean the same direction; each group excludes the others.
        question: with words of one group; where it has none, or of several, everything agrees.
    """

    def __init__(self, groups: Sequence[Sequence[str]], question: str) -> None:
        stems = [frozenset(terms(" ".join(group))) for group in groups]
        asked = frozenset(terms(question))
        own = [number for number, group in enumerate(stems) if group & asked]
        self._own = stems[own[0]] if len(own) == 1 else None
        self._own_words = tuple(groups[own[0]]) if len(own) == 1 else ()
        self._others: frozenset[str] = frozenset().union(*stems) - (self._own or frozenset())

    @property
    def own_words(self) -> tuple[str, ...]:
        """The words of the question's direction, as the profile has them; empty without one."""
        return self._own_words

    def __bool__(self) -> bool:
        return self._own is not None

    def agree(self, sentence: str) -> bool:
        """False for a sentence that has words of another direction, and none of the question's."""
        if self._own is None:
            return True
        words = frozenset(terms(sentence))
        return bool(words & self._own) or not words & self._others
