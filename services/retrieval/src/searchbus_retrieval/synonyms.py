"""How a collection's documents say what a question says in other words.

Newspapers say "bond buying", documents of a central bank "purchases of Treasury securities".
A profile names such phrases. Where a question has one, passages are also searched for the words of
the documents, which weigh less than the question's own. Phrases are compared by the stems of their
words: "rate hikes" is "rate hike".

    phrases = by_stems({"voting against": ["dissent", "went against"]})
    synonyms = Synonyms(phrases, "Why did the president dissent?")
    synonyms.words                                  # "voting against"
    synonyms.added(own, embedder.words(...))        # Sparse
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from searchbus_vectors import Sparse, terms

__all__ = ["SYNONYM_WEIGHT", "Synonyms", "by_stems"]

SYNONYM_WEIGHT = 0.4
"""Of a synonym; 1 of a word of the question."""


def by_stems(declared: Mapping[str, Sequence[str]]) -> dict[tuple[str, ...], str]:
    """Stems of each phrase → what the documents say in its place.

    Args:
        declared: words of the documents → phrases of questions.
    """
    return {_stems(phrase): words for words, phrases in declared.items() for phrase in phrases}


class Synonyms:
    """What the documents may say in place of a question's words.

    Args:
        phrases: stems of a phrase → words of the documents, see `by_stems`.
    """

    def __init__(self, phrases: Mapping[tuple[str, ...], str], question: str) -> None:
        stems = _stems(question) if phrases else ()
        longest = max(map(len, phrases), default=0)
        found = (
            phrases.get(stems[start:end])
            for start in range(len(stems))
            for end in range(start + 1, min(start + longest, len(stems)) + 1)
        )
        self.words = ", ".join(dict.fromkeys(words for words in found if words))

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
