"""How much of a question stands in one sentence of a passage: an answer is said in one place.

A passage that has the question's words here and there is about the same things; BM25 and the
passage's vector do not see the difference.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from itertools import takewhile

from searchbus_vectors import terms

from ..question.date_words import MONTHS

_WORD = re.compile(r"\w+")
_END = r"(?P<end>[.;!?](?=\s)|\n\s*\n)"
_NO_DAY = "".join(rf"(?<!{month} )" for month in MONTHS)
_NUMBER = (
    rf"(?P<number>(?<![\w.,:/-]){_NO_DAY}(?:[$\u20ac\u00a3]|(?:usd|eur|gbp)\s*)?(?!(?:19|20)\d\d\b)"
    r"\d(?:[\d,./-]*\d)?)(?![\d:]*:\d)"
    r"(?=\s*(?P<scale>(?:m|b|tr)illions?\b|[bm]n\b|dollars?\b|euros?\b)|)"
)
"""A number, but no year, no day of a month and no time. What follows may be a found word."""
_ASKS_FOR_NUMBER = re.compile(
    r"\bhow\s+(?:much|many|far|large|big|high|low|long|fast|steep|deep)\b|\b(?:size|amount|level|number)\s+of\b"
    r"|\b(?:what|which)\s+(?:\w+\s+){0,2}(?:amount|rate|size|share|percentage|percent|level|figure|number|pace|cap"
    r"|total|value|price|range|limit)\b|\bto\s+what\b|\bwhat\s+was\s+the\s+(?:\w+\s+){0,3}(?:rate|forecast)\b",
    re.I,
)


_ASKS_FOR_MONEY = re.compile(r"\b(?:dollars|in\s+dollar)\b", re.I)
"""Not "the dollar", which has a rate, nor "million", which people are counted in."""


def asks_for_number(question: str) -> bool:
    """Whether a number answers the question."""
    return _ASKS_FOR_NUMBER.search(question) is not None


def asks_for_money(question: str) -> bool:
    """Whether that number is an amount of money."""
    return _ASKS_FOR_MONEY.search(question) is not None


def beginnings(text: str) -> dict[str, str]:
    """What every form of each word has in common with its stem → the word: `polic` → policy."""
    words = ((word, stem) for word in _WORD.findall(text.lower()) for stem in terms(word))
    return {_common(word, stem): word for word, stem in words}


def _common(word: str, stem: str) -> str:
    pairs = zip(word, stem, strict=False)
    return word[: sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))]


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
        longest_first = sorted(map(re.escape, self._weights), key=len, reverse=True)
        self._pattern = re.compile(rf"\b(?:{'|'.join(longest_first)})|{_END}|{_NUMBER}")

    def share_in(self, text: str) -> float:
        """The most of the question's words, by rarity, that a sentence has; 0 to 1."""
        if not self._all:
            return 0.0
        best = 0.0
        there: set[str] = set()
        counts = not self._with_number
        for match in self._pattern.finditer(text.lower() + "\n\n"):
            if (number := match["number"]) is not None:
                is_money = match["scale"] is not None or not number[0].isdigit()
                counts = counts or is_money or not self._with_money
            elif match["end"] is None:
                there.add(match[0])
            else:
                if there and counts:
                    best = max(best, sum(map(self._weights.__getitem__, there)))
                there, counts = set(), not self._with_number
        return best / self._all
