"""BM25's share of a document and of a query as sparse vectors; the store adds the rarity of terms.

The terms and weights of documents are those of fastembed's `Qdrant/bm25`, so that collections
written with it stay valid. A query's terms weigh by their frequency (Robertson et al.: Okapi at
TREC-3, 1994), which tells most in long questions. Importing fastembed and its table of punctuation
took half a second of each start.
"""

from __future__ import annotations

import re
from collections import Counter
from functools import lru_cache

import mmh3
from py_rust_stemmers import SnowballStemmer

from .stopwords import STOPWORDS
from .vectors import Sparse

__all__ = ["document_vector", "query_vector", "terms"]

_K1, _B = 1.2, 0.75
_K3 = 8.0
"""Of a term's frequency in the query: twice counts 1.8, ten times 5."""
_AVERAGE_TERMS = 120.0
"""Of passages of about 1,000 characters, without stopwords."""
_MAX_TERM_CHARS = 40
_WORD = re.compile(r"\w+")
_stemmer = SnowballStemmer("english")


def document_vector(text: str) -> Sparse:
    """Term ids of a passage, and the weight of each by its frequency and the passage's length."""
    counts = Counter(terms(text))
    saturation = _K1 * (1 - _B + _B * counts.total() / _AVERAGE_TERMS)
    # Two terms may share an id; the later one counts.
    weights = {_id(term): n * (_K1 + 1) / (n + saturation) for term, n in counts.items()}
    return Sparse(list(weights), list(weights.values()))


def query_vector(text: str) -> Sparse:
    """Term ids of a query, and the weight of each by its frequency there; 1 for a single one."""
    counts = Counter(_id(term) for term in terms(text))
    return Sparse(list(counts), [n * (_K3 + 1) / (n + _K3) for n in counts.values()])


def terms(text: str) -> list[str]:
    """Stems in order, without stopwords."""
    stems = (
        _stem(word)
        for word in _WORD.findall(text.lower())
        if word != "_" and word not in STOPWORDS and len(word) <= _MAX_TERM_CHARS
    )
    return [stem for stem in stems if stem]


@lru_cache(50_000)
def _stem(word: str) -> str:
    return str(_stemmer.stem_word(word))


def _id(term: str) -> int:
    return abs(mmh3.hash(term))
