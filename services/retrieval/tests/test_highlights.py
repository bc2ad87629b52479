"""Sentences that answer a question score higher."""

from __future__ import annotations

import pytest

from searchbus_retrieval.highlights import MAX_EMBEDDED, Highlights

SENTENCES = [
    "The meeting was held at ten.",
    "Participants noted that the harvest of pears was poor.",
    "They thanked the staff.",
    "Inflation remained elevated.",
]


@pytest.fixture
def highlights(embedder):
    return Highlights(embedder)


async def test_sentence_with_the_words_of_the_question_is_best(highlights):
    """In other forms, too; the scores lie between 0 and 1."""
    scores = await highlights.score("How were the harvests of pears?", SENTENCES)
    assert scores.index(max(scores)) == 1
    assert all(0 <= score <= 1 for score in scores)


async def test_many_sentences_are_compared_by_their_words_only(highlights, embedder, monkeypatch):
    """So that a large answer costs little more."""
    monkeypatch.setattr(embedder, "embed_short", None)
    many = ["They thanked the staff."] * (MAX_EMBEDDED + 20) + [SENTENCES[1]]
    scores = await highlights.score("harvest of pears", many)
    assert len(scores) == len(many)
    assert max(scores) == scores[-1]


@pytest.mark.parametrize("sentences", [[], ["One."], ["Same.", "Same."]])
async def test_few_or_equal_sentences_have_scores(highlights, sentences):
    """Nothing to compare is no failure."""
    assert len(await highlights.score("pears", sentences)) == len(sentences)
