"""BM25 as sparse vectors."""

from __future__ import annotations

import pytest

from searchbus_vectors.bm25 import (
    STOPWORDS,
    different_terms,
    document_vector,
    query_vector,
    terms,
)

RAISED, RATE = 1080336643, 1151308235
EXPECTED = {
    919637320: 1.6,
    1080336643: 1.852632,
    1151308235: 1.955556,
    243669559: 1.6,
    937671724: 1.6,
    1810453357: 1.6,
    1394226660: 1.6,
}


def test_ids_and_weights_stay_those_of_stored_collections():
    """They are fastembed's for the same text; other ones would make stored passages unfindable."""
    vector = document_vector("The Committee raised rates; a raised rate's effect: rates rise 1.5%.")
    assert dict(zip(vector.indices, vector.values, strict=True)) == pytest.approx(EXPECTED)
    assert query_vector("raised rates").indices == [RAISED, RATE]


def test_a_longer_passage_counts_each_term_less():
    """The weight falls with the length of the passage and grows with the term's frequency."""
    rate = query_vector("rate").indices[0]

    def weight(text: str) -> float:
        vector = document_vector(text)
        return dict(zip(vector.indices, vector.values, strict=True))[rate]

    assert weight("rate") > weight("rate " + "other words " * 50)
    assert weight("rate rate") > weight("rate once")


def test_accent_behind_its_letter_is_of_the_word():
    """PDFs and file names write it so; queries have one letter."""
    for of in (terms, different_terms, document_vector, query_vector):
        assert of("Cafe\u0301 Zu\u0308rich") == of("caf\u00e9 z\u00fcrich")


@pytest.mark.parametrize("text", ["", " \n", "the of and", "_", "🙂", "x" * 41])
def test_texts_without_terms_have_empty_vectors(text):
    """Stopwords, signs and words of more than 40 characters are no terms."""
    assert document_vector(text).indices == query_vector(text).indices == []


@pytest.mark.parametrize(
    "text", ["", "_", "x" * 41, "The rates of a rate's rise: RATES rise 1.5%, Zürich and _it_."]
)
def test_different_terms_are_the_terms_without_order(text):
    """Nothing else is left out or added."""
    assert different_terms(text) == set(terms(text))


def test_repeated_words_of_a_query_weigh_more():
    """Each time less than the time before."""
    vector = query_vector("rates rate RATES committee")
    assert vector.indices[0] == RATE
    assert vector.values == [pytest.approx(27 / 11), 1.0]
    assert query_vector("rate " * 1000).values[0] < 9


def test_common_words_are_stopwords_and_topics_are_not():
    """All in lower case, as words are compared."""
    assert {"the", "of", "what"} <= STOPWORDS
    assert not {"bank", "rate", "mail"} & STOPWORDS
    assert all(word == word.lower() for word in STOPWORDS)
