"""Estimates how many tokens the embedding model makes of a text, without the model's tokenizer.

    tokens = TokenEstimate(text)
    tokens.between(0, 1000)      # of a part, offsets in characters
    tokens.reach(0, 128)         # the end of the longest part from 0 with at most 128 tokens

WordPiece splits at white space and punctuation, and a rare word into several tokens. How many
follows from the word's length, and from the kind of the text: few in English prose, more in code,
many in other languages, whose words the model's vocabulary does not have. The constants were fitted
to the tokenizer of bge-small; the tests compare with it.
"""

from __future__ import annotations

import re
import unicodedata
from array import array
from bisect import bisect_left, bisect_right

__all__ = ["TokenEstimate"]

_PIECE = re.compile(r"[0-9A-Za-z\u00c0-\u024f]+|\S")
_LATIN_WORD = re.compile(r"[A-Za-z\u00c0-\u024f]+")
_PUNCTUATION = re.compile(r"[^\w\s]|_")
_COMMON_ENGLISH = frozenset(
    "the of and to that for it is as with by be not or this are at from if which has have its were "
    "will their can but than been had when other each who into such would".split()
)
"""Without those that are as common in another language, like "in", "an" and "was"."""
_ENGLISH_SHARE = 0.08
"""Of such words; English prose and the comments of code have more, another language fewer."""
_KIND_CHARS = 20_000
"""The start of a text tells its kind."""
_UNKNOWN_FROM_CHARS = 101
"""The tokenizer makes one unknown token of a longer word."""


class TokenEstimate:
    """Estimated tokens of any part of one text; a part costs two binary searches."""

    def __init__(self, text: str) -> None:
        growth = _growth(text[:_KIND_CHARS])
        self._end = len(text)
        self._starts = array("L")
        self._totals = array("d", [0.0])
        total = 0.0
        for match in _PIECE.finditer(text):
            total += _tokens(match[0], growth)
            self._starts.append(match.start())
            self._totals.append(total)

    def between(self, start: int, end: int) -> float:
        """Tokens of `text[start:end]`; a word counts where it starts."""
        first, last = bisect_left(self._starts, start), bisect_left(self._starts, end)
        return self._totals[last] - self._totals[first]

    def reach(self, start: int, limit: float) -> int:
        """The end of the longest part from `start` that has at most `limit` tokens."""
        first = bisect_left(self._starts, start)
        beyond = bisect_right(self._totals, self._totals[first] + limit) - 1
        return self._starts[beyond] if beyond < len(self._starts) else self._end


def _growth(text: str) -> float:
    """Tokens that each letter of a word past the third adds, on average."""
    words = _LATIN_WORD.findall(text)
    if not words:
        return 0.0
    common = sum(word.lower() in _COMMON_ENGLISH for word in words) / len(words)
    punctuation = len(_PUNCTUATION.findall(text)) / len(text)
    foreign = max(0.0, 1 - common / _ENGLISH_SHARE)
    return 0.03 + 0.6 * max(0.0, min(punctuation, 0.25) - 0.03) + 0.35 * foreign


def _tokens(piece: str, growth: float) -> float:
    length = len(piece)
    if length == 1:
        if piece.isascii():
            return 1.0
        if "\uac00" <= piece <= "\ud7a3":  # the tokenizer takes Korean syllables apart
            return 2.0
        return 0.0 if unicodedata.category(piece) == "Mn" else 1.0
    if length >= _UNKNOWN_FROM_CHARS:
        return 1.0
    if piece.isalpha():
        return 1.0 + growth * max(0, length - 3)
    if piece.isdigit():
        return max(1.0, 0.6 * length - 0.6)
    return 0.7 + 0.47 * length
