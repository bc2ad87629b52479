"""Words that mean the same as a question's."""

from __future__ import annotations

import pytest

from searchbus_retrieval.synonyms import SYNONYM_WEIGHT, Phrases, Synonyms
from searchbus_vectors import Sparse

PHRASES = Phrases(
    {
        "voting against": ["dissent", "went against"],
        "employment": ["jobs"],
        "unemployment": ["out of work"],
    }
)


@pytest.mark.parametrize(
    ("question", "words"),
    [
        ("Why did George dissent?", "voting against"),
        ("He Went AGAINST it, a dissenting vote", "voting against"),
        ("dissent over jobs", "voting against, employment"),
        ("dissenters and their job", "voting against, employment"),
        ("work of a jobless union: who went, against", "voting against"),
        ("people out-of-work", "unemployment"),
        ("voting against employment", ""),
    ],
)
def test_words_are_those_of_the_documents_for_phrases_of_the_question(question, words):
    """Phrases are compared by the stems of all their words, in their order."""
    assert Synonyms(PHRASES, question).words == words


def test_question_is_embedded_with_the_documents_words():
    """Its words for which they have others are known."""
    synonyms = Synonyms(PHRASES, "Out of work, Poe went against it")
    assert synonyms.question == "Out of work, Poe went against it (unemployment, voting against)"
    assert synonyms.replaced == {"out", "of", "work", "went", "against"}
    assert Synonyms(PHRASES, "pears").question == "pears"


def test_synonyms_weigh_less_than_words():
    """And nothing beside a word of the question."""
    added = Synonyms(Phrases({}), "").added(Sparse([1, 2], [1.0, 1.8]), Sparse([2, 3], [1.0, 1.8]))
    assert added == Sparse([1, 2, 3], [1.0, 1.8, SYNONYM_WEIGHT])
    assert SYNONYM_WEIGHT < 1
