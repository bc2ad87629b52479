"""BM25's share of a document and of a query as sparse vectors; the store adds the rarity of terms.

Terms and weights of documents are those of fastembed's `Qdrant/bm25`, so that collections written
with it stay valid. A query's terms weigh by their frequency (Robertson et al.: Okapi at TREC-3).
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable
from functools import lru_cache
from typing import TypeVar

import mmh3
from py_rust_stemmers import SnowballStemmer

from .points import Sparse

STOPWORDS = frozenset(
    (
        "a about after all also am an and any are as at be because been before being between both "
        "but by can could did do does doing during each for from had has have having he her here "
        "hers him his how i if in into is it its just me more most my no nor not of off on once "
        "only or other our out over own s same she should so some such t than that the their them "
        "then there these they this those through to too under until up very was we were what when "
        "where which while who whom why will with would you your"
    ).split()
)


T = TypeVar("T", str, int)
_K1, _B = 1.2, 0.75
_K3 = 8.0
"""A term that is twice in the query counts 1.8, ten times 5."""
_AVERAGE_TERMS = 120.0
"""Passages of about 1,000 characters, without stopwords."""
_MAX_TERM_CHARS = 40
_WORD = re.compile(r"\w+")
_stemmer = SnowballStemmer("english")


def document_vector(text: str) -> Sparse:
    """Term ids of a passage, and the weight of each by its frequency and the passage's length."""
    # Two terms may share an id; the later one counts.
    weights = {_id(term): weight for term, weight in weighted(Counter(terms(text))).items()}
    return Sparse(list(weights), list(weights.values()))


def weighted(counts: Counter[T]) -> dict[T, float]:
    """The weight of each term of a passage, by its frequency and the passage's length."""
    saturation = _K1 * (1 - _B + _B * counts.total() / _AVERAGE_TERMS)
    return {term: n * (_K1 + 1) / (n + saturation) for term, n in counts.items()}


def query_vector(text: str) -> Sparse:
    """Term ids of a query, and the weight of each by its frequency there; 1 for a single one."""
    counts = Counter(_id(term) for term in terms(text))
    return Sparse(list(counts), [n * (_K3 + 1) / (n + _K3) for n in counts.values()])


def terms(text: str) -> list[str]:
    """Stems in order, without stopwords."""
    return _stems(_words(text))


def different_terms(text: str) -> set[str]:
    """The different stems, without stopwords; in less time than `terms`."""
    return set(_stems(set(_words(text))))


def _words(text: str) -> list[str]:
    """The words in small letters; an accent after its letter, as in PDFs, would end the word."""
    composed = text if text.isascii() else unicodedata.normalize("NFC", text)
    return _WORD.findall(composed.lower())


def _stems(words: Iterable[str]) -> list[str]:
    stems = (
        stem(word)
        for word in words
        if word != "_" and word not in STOPWORDS and len(word) <= _MAX_TERM_CHARS
    )
    return [stem for stem in stems if stem]


@lru_cache(50_000)
def stem(word: str) -> str:
    """The stem of an English word in small letters."""
    return str(_stemmer.stem_word(word))


def _id(term: str) -> int:
    return abs(mmh3.hash(term))
