"""Other words for what a question says: to dissent is to vote against.

A profile names groups of words and phrases that mean the same. Where a question has one of a group,
passages are also searched for the others, which weigh less than the question's own words.

    synonyms = Synonyms([["dissent", "voting against"]], "Why did the president dissent?")
    synonyms.words                                  # "voting against"
    synonyms.added(own, embedder.words(...))        # Sparse
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from searchbus_vectors import Sparse

__all__ = ["SYNONYM_WEIGHT", "Synonyms"]

SYNONYM_WEIGHT = 0.4
"""Of a synonym; 1 of a word of the question."""


class Synonyms:
    """What a question may also be in other words.

    Args:
        groups: of words and phrases that mean the same.
    """

    def __init__(self, groups: Sequence[Sequence[str]], question: str) -> None:
        found: dict[str, None] = {}
        for group in groups:
            if any(_stands_in(question, phrase) for phrase in group):
                found |= dict.fromkeys(group)
        self.words = " ".join(phrase for phrase in found if not _stands_in(question, phrase))

    def added(self, own: Sparse, others: Sparse) -> Sparse:
        """The words of the question and those of the synonyms that it lacks.

        Args:
            own: of the question.
            others: of `words`.
        """
        known = set(own.indices)
        new = [index for index in others.indices if index not in known]
        return Sparse([*own.indices, *new], [*own.values, *[SYNONYM_WEIGHT] * len(new)])


def _stands_in(question: str, phrase: str) -> bool:
    return re.search(rf"(?<!\w){re.escape(phrase)}(?!\w)", question, re.I) is not None
