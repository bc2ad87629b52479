"""How a collection's documents say what a question says in other words, and when it was.

Newspapers say "bond buying", documents of a central bank "purchases of Treasury securities".
A profile names such phrases. Where a question has one, passages are also searched for the words of
the documents, which weigh less than the question's own, and the question is embedded with them. A
profile names events, too: "the maestro stepped down" was in January 2006. Phrases are compared by
the stems of their words: "rate hikes" is "rate hike".

    phrases = by_stems({"voting against": ["dissent", "went against"]})
    synonyms = Synonyms(phrases, "Why did the president dissent?")
    synonyms.words                                  # "voting against"
    synonyms.added(own, embedder.words(...))        # Sparse
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TypeVar

from searchbus_vectors import Sparse, terms

__all__ = ["SYNONYM_WEIGHT", "Synonyms", "by_stems", "said_in"]

T = TypeVar("T")

SYNONYM_WEIGHT = 0.25
"""Of a synonym; 1 of a word of the question."""


def by_stems(declared: Mapping[T, Sequence[str]]) -> dict[tuple[str, ...], T]:
    """Stems of each phrase → what it means.

    Args:
        declared: what is meant → phrases of questions.
    """
    return {_stems(phrase): meant for meant, phrases in declared.items() for phrase in phrases}


def said_in(question: str, phrases: Mapping[tuple[str, ...], T]) -> dict[tuple[str, ...], T]:
    """The phrases that the question has, in order.

    Args:
        phrases: see `by_stems`.
    """
    stems = _stems(question) if phrases else ()
    longest = max(map(len, phrases), default=0)
    parts = (
        stems[start:end]
        for start in range(len(stems))
        for end in range(start + 1, min(start + longest, len(stems)) + 1)
    )
    return {part: phrases[part] for part in parts if part in phrases}


class Synonyms:
    """What the documents may say in place of a question's words.

    Args:
        phrases: stems of a phrase → words of the documents, see `by_stems`.
    """

    def __init__(self, phrases: Mapping[tuple[str, ...], str], question: str) -> None:
        found = said_in(question, phrases)
        self.words = ", ".join(dict.fromkeys(found.values()))
        self.replaced = frozenset(stem for phrase in found for stem in phrase)
        """Stems of the question for which the documents have other words."""
        self.question = f"{question} ({self.words})" if self.words else question
        """The question with these words."""

    def added(self, own: Sparse, others: Sparse) -> Sparse:
        """The words of the question and those of the synonyms that it lacks.

        Args:
            own: of the question.
            others: of `words`.
        """
        known = set(own.indices)
        new = [index for index in others.indices if index not in known]
        return Sparse([*own.indices, *new], [*own.values, *[SYNONYM_WEIGHT] * len(new)])


def _stems(text: str) -> tuple[str, ...]:
    """Stems of all words, stopwords as they are: "out of work" is not "work"."""
    return tuple((terms(word) or [word])[0] for word in re.findall(r"\w+", text.lower()))
