"""The words that BM25 leaves out."""

from __future__ import annotations

from searchbus_vectors.stopwords import STOPWORDS


def test_common_words_are_stopwords_and_topics_are_not():
    """All in lower case, as words are compared."""
    assert {"the", "of", "what"} <= STOPWORDS
    assert not {"bank", "rate", "mail"} & STOPWORDS
    assert all(word == word.lower() for word in STOPWORDS)
