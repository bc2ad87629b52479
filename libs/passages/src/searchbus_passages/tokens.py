"""Counts tokens by a fixed rule, so that a budget is the same on every machine and for every model.

    count('{"text":"Rates rose."}')        # of a result's JSON, as a client receives it
    ruler = Ruler(text)                    # of a text that will be a string in that JSON
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
from array import array
from bisect import bisect_left, bisect_right
from collections import Counter
from functools import lru_cache
from itertools import pairwise

__all__ = ["MAX_CHARS_PER_TOKEN", "Ruler", "count"]

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
    """The tokens of any part of one text inside a JSON string; a part costs two binary searches.

    Characters that JSON escapes count as their escapes.
    """

    def __init__(self, text: str) -> None:
        self._end = len(text)
        self._starts = array("L")
        self._totals = array("L", [0])
        total = 0
        for match in _PIECE.finditer(text):
            piece = match[0]
            if piece == " ":
                following = text[match.end() : match.end() + 1]
                halves = 0 if following.isascii() and following.isalpha() else 2
            else:
                halves = _halves(piece)
            total += halves
            self._starts.append(match.start())
            self._totals.append(total)

    def between(self, start: int, end: int) -> int:
        """Tokens of `text[start:end]`, rounded up; a word that is partly inside counts whole."""
        first = max(0, bisect_right(self._starts, start) - 1)
        last = bisect_left(self._starts, end)
        return -(-(self._totals[max(first, last)] - self._totals[first]) // 2)

    def reach(self, start: int, limit: int) -> int:
        """The end of the longest part from `start` that has at most `limit` tokens; whole words."""
        first = max(0, bisect_right(self._starts, start) - 1)
        beyond = bisect_right(self._totals, self._totals[first] + 2 * limit) - 1
        return self._starts[beyond] if beyond < len(self._starts) else self._end


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
