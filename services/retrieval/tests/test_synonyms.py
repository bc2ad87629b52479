"""Words that mean the same as a question's."""

from __future__ import annotations

import pytest

from searchbus_retrieval.synonyms import SYNONYM_WEIGHT, Synonyms
from searchbus_vectors import Sparse

GROUPS = [["dissent", "dissented", "voting against"], ["jobs", "employment"]]


@pytest.mark.parametrize(
    ("question", "words"),
    [
        ("Why did George dissent?", "dissented voting against"),
        ("Voting AGAINST were two", "dissent dissented"),
        ("dissent over jobs", "dissented voting against employment"),
        ("dissenters and their job", ""),
        ("jobs and employment", ""),
    ],
)
def test_words_are_those_that_the_question_lacks(question, words):
    """Of each group of which it has one; whole words count."""
    assert Synonyms(GROUPS, question).words == words


def test_synonyms_weigh_less_than_words():
    """And nothing beside a word of the question."""
    added = Synonyms((), "").added(Sparse([1, 2], [1.0, 1.8]), Sparse([2, 3], [1.0, 1.8]))
    assert added == Sparse([1, 2, 3], [1.0, 1.8, SYNONYM_WEIGHT])
    assert SYNONYM_WEIGHT < 1
