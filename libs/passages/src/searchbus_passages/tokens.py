"""Counts tokens by a fixed rule, so that a budget is the same on every machine and for every model.

    count('{"text":"Rates rose."}')        # of a result's JSON, as a client receives it
    ruler = Ruler(text)                    # of a text that will be a string in that JSON
    ruler = Ruler(text, model_tokens)      # of a text for the embedding model, estimated
    ruler.between(0, 1000)                 # tokens of a part; offsets in characters
    ruler.reach(0, 250)                    # the end of the longest part that has at most 250 tokens

A tokenizer belongs to one model, and the models of the clients are unknown. The rule counts no
fewer tokens than common tokenizers do, in any language; README.md has what was measured.

    run of ASCII letters        each word of it 1; 1 more for every two letters beyond the sixth;
                                1 more for two neighbouring letters that are not among the 190
                                commonest pairs of English; 1 more for a, i, o or u at the end of
                                three letters or more; at most 1 a letter; a capital begins a word
    run with a digit            1 for each character
    space before a letter       0
    any other ASCII character   1
    U+0080 to U+036F            2      letters with marks, combining marks
    U+0370 to U+07FF            3/2    Greek, Cyrillic, Hebrew, Arabic; Armenian 2
    CJK, kana, hangul           2
    any other below U+10000     3
    above                       4

No text has more tokens than it has bytes in UTF-8.
"""

from __future__ import annotations

import re
import unicodedata
from array import array
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Callable, Iterator
from functools import lru_cache
from itertools import pairwise
from math import ceil

MAX_CHARS_PER_TOKEN = 8
"""A word of seven letters with the space before it; longer words have more tokens."""
_FREE_LETTERS = 6
_FOREIGN_END = re.compile(r"..[aiou]$")
_COMMON_PAIRS = frozenset(
    group[0] + second
    for group in (
        "abcdgilmnprstvy baelouy caehiklortu daeiosu eacdefilmnprstvwx faefiloru gaehinr "
        "haeio iabcdefglmnorstv ke ladeilosuy mabeimop nacdefgiostuv ocdflmnoprstuvw paelopr "
        "qu racdeikmnorstvy sacehiopstu taehilorstuy uacelmnprst vaei waehio xp ye"
    ).split()
    for second in group[1:]
)
"""Tokenizers learned mostly from English: they have its words whole, and others in pieces. Nine in
ten pairs of English texts are among these, two in three of Polish ones; and hardly any of its words
ends in a vowel other than e."""
_MAX_RUN_CHARS = 64
_RUN = re.compile(rf"[0-9A-Za-z]{{1,{_MAX_RUN_CHARS}}}")
_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]")
_FREE_SPACE = re.compile(r" (?=[A-Za-z])")
_NOT_ASCII = re.compile(r"[^\x00-\x7f]")
_PIECE = re.compile(rf"{_RUN.pattern}|[^0-9A-Za-z]")
_ESCAPED = frozenset('"\\\b\f\n\r\t')
_ESCAPED_CONTROL = 6
_ROUNDING = 1e-6
"""Sums of fractions of tokens are rounded."""
_MODEL_PIECE = re.compile(r"[0-9A-Za-z\u00c0-\u024f]+|\s+|\S")
_LATIN_WORD = re.compile(r"[A-Za-z\u00c0-\u024f]+")
_PUNCTUATION = re.compile(r"[^\w\s]|_")
_COMMON_ENGLISH = frozenset(
    "the of and to that for it is as with by be not or this are at from if which has have its were "
    "will their can but than been had when other each who into such would".split()
)
"""Without those that are as common in another language, like "in", "an" and "was"."""
_ENGLISH_SHARE = 0.08
"""English prose and the comments of code have more of them, another language fewer."""
_KIND_CHARS = 20_000
"""The start of a text tells its kind."""
_UNKNOWN_FROM_CHARS = 101
"""The tokenizer makes one unknown token of a longer word."""


def count(text: str) -> int:
    """The tokens of a text, rounded up."""
    runs = Counter(_RUN.findall(text))
    others = Counter(_NOT_ASCII.findall(text))
    in_runs = sum(len(run) * times for run, times in runs.items())
    halves = 2 * (len(text) - in_runs - others.total() - len(_FREE_SPACE.findall(text)))
    halves += sum(_halves_of_run(run) * times for run, times in runs.items())
    halves += sum(_halves_of_other(char) * times for char, times in others.items())
    return -(-halves // 2)


class Ruler:
    """The tokens of any part of one text; a part costs two binary searches.

    Args:
        pieces: (start, tokens) of each piece of the text, which leave no gap: `json_tokens`, where
            it will be a string in JSON, or `model_tokens`.
    """

    def __init__(
        self, text: str, pieces: Callable[[str], Iterator[tuple[int, float]]] | None = None
    ) -> None:
        self._end = len(text)
        self._starts = array("L")
        self._totals = array("d", [0.0])
        total = 0.0
        for start, tokens in (pieces or json_tokens)(text):
            total += tokens
            self._starts.append(start)
            self._totals.append(total)

    def between(self, start: int, end: int) -> int:
        """Tokens of `text[start:end]`, rounded up; a word that is partly inside counts whole."""
        first = self._piece(start)
        last = bisect_left(self._starts, end)
        return ceil(self._totals[max(first, last)] - self._totals[first] - _ROUNDING)

    def reach(self, start: int, limit: float) -> int:
        """The end of the longest part from `start` that has at most `limit` tokens; whole words."""
        most = self._totals[self._piece(start)] + limit
        beyond = bisect_right(self._totals, most + _ROUNDING) - 1
        return max(start, self._starts[beyond]) if beyond < len(self._starts) else self._end

    def _piece(self, offset: int) -> int:
        """The number of the piece at an offset; behind the last one at the text's end."""
        at_end = offset >= self._end
        return len(self._starts) if at_end else bisect_right(self._starts, offset) - 1


def json_tokens(text: str) -> Iterator[tuple[int, float]]:
    """The pieces of a text inside a JSON string; characters that it escapes count as escapes."""
    for match in _PIECE.finditer(text):
        piece = match[0]
        if piece == " ":
            following = text[match.end() : match.end() + 1]
            yield match.start(), 0.0 if following.isascii() and following.isalpha() else 1.0
        else:
            yield match.start(), _halves(piece) / 2


def model_tokens(text: str) -> Iterator[tuple[int, float]]:
    """The pieces of a text, with the tokens that the embedding model makes of each, estimated.

    WordPiece splits at white space and punctuation, and a rare word into several tokens. How many
    follows from the word's length, and from the kind of the text: few in English prose, more in
    code, many in other languages, whose words the model's vocabulary does not have. The constants
    were fitted to the tokenizer of bge-small; the tests compare with it.
    """
    growth = _growth(text[:_KIND_CHARS])
    for match in _MODEL_PIECE.finditer(text):
        yield match.start(), _in_model(match[0], growth)


@lru_cache(maxsize=20_000)
def _halves(piece: str) -> int:
    if piece.isascii() and piece.isalnum():
        return _halves_of_run(piece)
    if piece in _ESCAPED:
        return 4
    if piece < " ":
        return 2 * _ESCAPED_CONTROL
    return 2 if piece.isascii() else _halves_of_other(piece)


def _halves_of_run(run: str) -> int:
    if not run.isalpha():
        return 2 * len(run)
    return 2 * sum(map(_of_word, _WORD.findall(run)))


@lru_cache(maxsize=20_000)
def _of_word(word: str) -> int:
    small = word.lower()
    beyond = max(0, len(word) - _FREE_LETTERS) // 2
    rare = sum(first + second not in _COMMON_PAIRS for first, second in pairwise(small))
    foreign = _FOREIGN_END.search(small) is not None
    return min(len(word), 1 + beyond + rare + foreign)


def _halves_of_other(char: str) -> int:
    point = ord(char)
    if point <= 0x36F:
        return 4
    if point <= 0x7FF:
        return 4 if 0x530 <= point <= 0x58F else 3
    if point > 0xFFFF:
        return 8
    if 0x3000 <= point <= 0x9FFF or 0xAC00 <= point <= 0xD7A3 or point >= 0xFF00:
        return 4
    return 6


def _growth(text: str) -> float:
    """Tokens that each letter of a word past the third adds, on average."""
    words = _LATIN_WORD.findall(text)
    if not words:
        return 0.0
    common = sum(word.lower() in _COMMON_ENGLISH for word in words) / len(words)
    punctuation = len(_PUNCTUATION.findall(text)) / len(text)
    foreign = max(0.0, 1 - common / _ENGLISH_SHARE)
    return 0.03 + 0.6 * max(0.0, min(punctuation, 0.25) - 0.03) + 0.35 * foreign


def _in_model(piece: str, growth: float) -> float:
    length = len(piece)
    if piece.isspace():
        return 0.0
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
