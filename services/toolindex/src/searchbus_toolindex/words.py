"""Splits texts and identifiers into words, and words into stems without stopwords.

Text in scripts without spaces (Chinese, Japanese, Korean) gives pairs of adjacent characters.
"""

from __future__ import annotations

import re
import unicodedata

from searchbus_vectors.bm25 import STOPWORDS as COMMON_WORDS
from searchbus_vectors.bm25 import stem as stem_word

_RUN = re.compile(r"\d+|[^\W\d_]+")
_CASED = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+")
_UNSPACED = re.compile(r"[\u0e00-\u0eff\u1100-\u11ff\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")

STOPWORDS = COMMON_WORDS.union(
    "please want need help like know find get give tell show using use provide let".split()
)
"""Common words, and the words with which people ask for anything."""
_MAX_WORD_CHARS = 64
"""A longer run is not a word, and texts of any size would fill the cache of stems."""


def split_words(text: str) -> list[str]:
    """Words in order; identifiers are split at case changes, digits and punctuation.

    Accents are put into their letters, as in queries: behind a letter they would end the word.
    """
    words: list[str] = []
    for run in _RUN.findall(unicodedata.normalize("NFC", text)):
        if run.isascii() and not (run.islower() or run.isdigit()):
            words += _CASED.findall(run)
        else:
            words.append(run)
    return words


def is_unspaced(word: str) -> bool:
    """Whether the word is in a script without spaces between words."""
    return _UNSPACED.match(word) is not None


def stem(word: str) -> str:
    """The stem of a lower-cased English word; a run of letters that is too long for one stays."""
    return stem_word(word) if len(word) <= _MAX_WORD_CHARS else word


def fold(text: str) -> str:
    """Lower case without accents; letters such as ł and ø, which have no plain form, stay."""
    decomposed = unicodedata.normalize("NFKD", text.lower())
    return "".join(c for c in decomposed if not unicodedata.combining(c)).replace("ı", "i")


def terms(text: str) -> list[str]:
    """The terms that an index keeps of a text, in order, with repetitions."""
    return [term for _, term in word_terms(text)]


def word_terms(text: str) -> list[tuple[str, str]]:
    """(word as written, term) pairs; stopwords and single letters are left out."""
    found: list[tuple[str, str]] = []
    for word in split_words(text):
        if is_unspaced(word):
            pairs = [word[i : i + 2] for i in range(len(word) - 1)] or [word]
            found += [(pair, pair) for pair in pairs]
            continue
        lower = word.lower()
        if lower not in STOPWORDS and (len(lower) > 1 or lower.isdigit()):
            found.append((word, stem(lower)))
    return found
