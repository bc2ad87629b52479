"""How much of a question stands in one sentence of a passage: an answer is said in one place.

A passage that has the question's words here and there is about the same things; BM25 and the
passage's vector do not see the difference.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Container, Mapping
from os.path import commonprefix

from searchbus_vectors import terms

from ..question.date_words import MONTHS

_WORD = re.compile(r"\w+")
_END = re.compile(r"[.;!?\n](?:(?<!\n)(?=\s)|(?<=\n)\s*\n)")
"""Begins with the characters that it looks for, so that all others are passed over quickly."""
_NO_DAY = "".join(rf"(?<!{month} )" for month in MONTHS)
_NUMBER = re.compile(
    rf"(?=[$\u20ac\u00a3ueg\d])(?<![\w.,:/-]){_NO_DAY}(?:[$\u20ac\u00a3]|(?:usd|eur|gbp)\s*)?(?!(?:19|20)\d\d\b)"
    r"\d(?:[\d,./-]*\d)?(?![\d:]*:\d)"
    r"(?=\s*(?P<scale>(?:m|b|tr)illions?\b|[bm]n\b|dollars?\b|euros?\b)|)"
)
"""A number, but no year, no day of a month and no time."""
_ASKS_FOR_NUMBER = re.compile(
    r"\bhow\s+(?:much|many|far|large|big|high|low|long|fast|steep|deep)\b|\b(?:size|amount|level|number)\s+of\b"
    r"|\b(?:what|which)\s+(?:\w+\s+){0,2}(?:amount|rate|size|share|percentage|percent|level|figure|number|pace|cap"
    r"|total|value|price|range|limit)\b|\bto\s+what\b|\b(?:\d\d?|three|six|twelve)[\s-]months?\s+(?:to|ending|ended)\b"
    r"|\bwhat\s+was\s+the\s+(?:\w+\s+){0,3}(?:rate|forecast)\b",
    re.I,
)


_NAMES_A_RATE = re.compile(
    r"\b(?:unemployment|jobless|inflation|participation|savings?|vacancy|default)\s+rate\b"
    r"|\b(?:\d\d?|twelve)[\s-]month\b|\b(?:CPI|PCE|GDP|payrolls?)\b",
    re.I,
)
_ASKS = re.compile(r"\b(?:why|how|who|when|where|which|what|did|does|do|was|were|is|are)\b", re.I)
"""Words of a whole question; one of keywords alone, "jobless rate October 2000", has none."""
_ASKS_FOR_MONEY = re.compile(r"\b(?:dollars|in\s+dollar)\b", re.I)
"""Not "the dollar", which has a rate, nor "million", which people are counted in."""


def asks_for_number(question: str) -> bool:
    """Whether a number answers the question."""
    named = _NAMES_A_RATE.search(question) and not _ASKS.search(question)
    return bool(named) or _ASKS_FOR_NUMBER.search(question) is not None


def asks_for_money(question: str) -> bool:
    """Whether that number is an amount of money."""
    return _ASKS_FOR_MONEY.search(question) is not None


def beginnings(text: str) -> dict[str, str]:
    """What every form of each word has in common with its stem → the word: `polic` → policy."""
    words = ((word, stem) for word in _WORD.findall(text.lower()) for stem in terms(word))
    return {commonprefix(pair): pair[0] for pair in words}  # noqa: RUF071  (of letters)


class Sentences:
    """Finds a question's words in the sentences of passages.

    Args:
        rarity: word of the question, in small letters → the best score that any passage has for it.
        with_number: whether only sentences with a number count.
        with_money: whether it must be an amount, in a currency or in millions.
    """

    def __init__(
        self, rarity: Mapping[str, float], *, with_number: bool = False, with_money: bool = False
    ) -> None:
        self._with_number = with_number
        self._with_money = with_money
        self._weights = {
            start: rarity[word]
            for start, word in beginnings(" ".join(rarity)).items()
            if start and rarity[word]
        }
        self._all = sum(self._weights.values())
        self._longest_first = sorted(self._weights, key=len, reverse=True)

    def share_in(self, text: str) -> float:
        """The most of the question's words, by rarity, that a sentence has; 0 to 1."""
        if not self._all:
            return 0.0
        text = text.lower() + "\n\n"
        found = self._places(text)
        left = deque(sorted(found))
        best, behind = 0.0, 0
        while left:  # sentences without a word of the question are passed over
            place, there = left[0], set()
            end = next(_END.finditer(text, place))
            while left and left[0] < end.start():
                there.add(found[left.popleft()])
            weight = sum(map(self._weights.__getitem__, there))
            if weight > best and self._counts(text, behind, place, end.start(), found):
                best = weight
            behind = end.end()
        return best / self._all

    def _places(self, text: str) -> dict[int, str]:
        """Where words of the text begin as one of the question does → the longest that fits there.

        Searches for each beginning take a fifth of the time of one pattern for all.
        """
        found: dict[int, str] = {}
        for start in self._longest_first:
            place = text.find(start)
            while place >= 0:
                before = text[place - 1 : place]
                if not (before.isalnum() or before == "_"):
                    found.setdefault(place, start)
                place = text.find(start, place + 1)
        return found

    def _counts(self, text: str, behind: int, place: int, end: int, words: Container[int]) -> bool:
        """Whether a sentence has the number that is asked for, which the question does not have.

        Args:
            behind: where a sentence begins that is not behind that of `place`.
        """
        if not self._with_number:
            return True
        begin = max((one.end() for one in _END.finditer(text, behind, place)), default=behind)
        return any(
            not self._with_money or number["scale"] or not number[0][0].isdigit()
            for number in _NUMBER.finditer(text, begin, end)
            if number.start() not in words
        )
