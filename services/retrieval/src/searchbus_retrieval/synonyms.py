"""How a collection's documents say what a question says in other words, and when it was.

Newspapers say "bond buying", documents of a central bank "purchases of Treasury securities".
A profile names such phrases. Where a question has one, passages are also searched for the words of
the documents, which weigh less than the question's own, and the question is embedded with them. A
profile names events, too: "the maestro stepped down" was in January 2006. Phrases are compared by
the stems of their words: "rate hikes" is "rate hike".

    phrases = Phrases({"voting against": ["dissent", "went against"]})
    synonyms = Synonyms(phrases, "Why did the president dissent?")
    synonyms.words                                  # "voting against"
    synonyms.added(own, embedder.words(...))        # Sparse
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Generic, TypeVar

from searchbus_vectors import Sparse, terms

__all__ = ["SYNONYM_WEIGHT", "Phrases", "Synonyms"]

T = TypeVar("T")

SYNONYM_WEIGHT = 0.25
"""Of a synonym; 1 of a word of the question."""
_WORD = re.compile(r"\w+")


class Phrases(Generic[T]):
    """Phrases of questions, and what they mean.

    Args:
        declared: what is meant → phrases.
    """

    def __init__(self, declared: Mapping[T, Sequence[str]]) -> None:
        self._meant = {_stems(phrase): m for m, phrases in declared.items() for phrase in phrases}
        self._longest = max(map(len, self._meant), default=0)

    def __len__(self) -> int:
        """The number of different phrases."""
        return len(self._meant)

    def said_in(self, question: str) -> dict[tuple[str, ...], T]:
        """The phrases that the question has, by their stems, in order."""
        stems = _stems(question) if self._meant else ()
        parts = (
            stems[start:end]
            for start in range(len(stems))
            for end in range(start + 1, min(start + self._longest, len(stems)) + 1)
        )
        return {part: self._meant[part] for part in parts if part in self._meant}


class Synonyms:
    """What the documents may say in place of a question's words.

    Args:
        phrases: of questions, and the words of the documents.
    """

    def __init__(self, phrases: Phrases[str], question: str) -> None:
        found = phrases.said_in(question)
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
    return tuple(map(_stem, _WORD.findall(text.lower())))


@lru_cache(20_000)
def _stem(word: str) -> str:
    return (terms(word) or [word])[0]
