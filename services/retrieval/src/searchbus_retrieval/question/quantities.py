"""Finds the quantities of a query in a passage, however they are spelled: `5.25` is also `5-1/4`.

Quantities("a cut of 50 basis points").share_in("lowered by 1/2 percentage point")    # 1.0
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Literal

from .words import plain_letters, undamaged

_HYPHENS = "-\u2010\u2011\u2012\u2013\u2212"
_VULGAR = {
    "¼": "1/4", "½": "1/2", "¾": "3/4", "⅛": "1/8", "⅜": "3/8", "⅝": "5/8", "⅞": "7/8",
    "⅓": "1/3", "⅔": "2/3",
}  # fmt: skip
_PART = rf"(?:[1-9]\d?/(?:2|3|4|8|16|32)|[{''.join(_VULGAR)}])"
_NUMBER = re.compile(
    r"(?<![\w.,/])\$?"
    rf"(?:(?P<whole>0|[1-9]\d{{0,8}})(?:[{_HYPHENS} ]?(?P<part>{_PART})|\.(?P<decimals>\d{{1,6}}))?"
    rf"|(?P<alone>{_PART}))(?!(?!(?:bps?|bn|mn|tn)\b)[\w]|/|[.,]\d)"
)
_UNIT = re.compile(
    rf"[{_HYPHENS}\s]{{0,3}}(?:(?P<point>(?:of[{_HYPHENS}\s]an?[{_HYPHENS}\s])?percentage[{_HYPHENS}\s]points?)"
    r"|(?P<percent>%|per ?cent)"
    rf"|(?P<basis>basis[{_HYPHENS}\s]points?|bps?\b)|(?P<scale>m|b|tr)illion"
    r"|(?P<short>bn|mn|tn)\b)",
    re.I,
)
_RANGE = re.compile(rf"\s*(?:to|and|[{_HYPHENS}])\s*(?=\$?[\d{''.join(_VULGAR)}])", re.I)
"""Between the ends of a range, or two amounts: the second one's unit is the first one's, too."""
_ONES = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen"
    " sixteen seventeen eighteen nineteen"
).split()
_TENS = "twenty thirty forty fifty sixty seventy eighty ninety".split()
_WORDS = {word: n for n, word in enumerate(_ONES)} | {w: 10 * n for n, w in enumerate(_TENS, 2)}
_PARTS = {"half": "1/2", "quarter": "1/4", "three quarters": "3/4", "three quarter": "3/4"}
_PART_WORDS = r"half|three[\s-]quarters?|quarter"
_IN_WORDS = re.compile(
    rf"\b(?:(?:(?P<tens>{'|'.join(_TENS)})(?:[\s-](?P<ones>{'|'.join(_ONES)}))?"
    rf"|(?P<alone>{'|'.join(_ONES)}))(?:\sand\s(?:an?|one)[\s-](?P<part>{_PART_WORDS}))?"
    rf"|(?:(?:an?|one)[\s-])?(?P<only>{_PART_WORDS})(?:\sof)?(?:\san?)?)[\s-]"
    r"(?P<unit>percent|per ?cent|basis|points?\b)",
    re.I,
)
_SCALES = {"m": 10**6, "b": 10**9, "tr": 10**12}
_SENTENCE_END = re.compile(r"[.;!?](?=\s)")
_MAX_QUANTITIES = 8

_Kind = Literal["percent", "point", "amount", ""]


@dataclass(frozen=True, slots=True)
class _Quantity:
    """A number with its unit.

    Attributes:
        number: as it is written.
        kind: "" where no unit is given; points are percentage points.
        value: in the kind's base unit.
        until: the other end of a range that begins here, as it is written.
    """

    number: Fraction
    kind: _Kind
    value: Fraction
    until: Fraction | None = None

    def stands_in(self, other: _Quantity) -> bool:
        """Whether the other one is the same, or a range that begins with this one."""
        if self.until is not None and self.until != other.until:
            return False
        if self.kind and other.kind:
            return self.kind == other.kind and self.value == other.value
        return self.number == other.number


class Quantities:
    """The numbers of a query that have a unit, a fraction or a currency sign."""

    def __init__(self, query: str) -> None:
        query = with_digits(query)
        found: dict[_Quantity, None] = {}
        end_of_range: Fraction | None = None
        for match in _NUMBER.finditer(query):
            quantity = _read(query, match)
            if quantity is None:
                continue
            if quantity.number != end_of_range:
                found[quantity] = None
            end_of_range = quantity.until
        self._wanted = list(found)[:_MAX_QUANTITIES]
        self._meant = {number for wanted in self._wanted for number in _numbers(wanted)}
        self._starts = sorted({start for number in self._meant for start in _starts(number)})
        self._may_be: dict[str, bool] = {}

    def __bool__(self) -> bool:
        return bool(self._wanted)

    @property
    def spellings(self) -> list[str]:
        """The usual spelling of the fractions among them, as `5-1/4`, to be found as words."""
        numbers = {n for q in self._wanted for n in (q.number, q.until) if n is not None}
        return [f"{int(n)}-{n % 1}" if n > 1 else str(n) for n in sorted(numbers) if n % 1]

    @property
    def ranges(self) -> list[tuple[float, float]]:
        """The rates in percent, each as the two ends of a range; one rate alone is both."""
        found = ((q.number, q.until or q.number) for q in self._wanted if q.kind == "percent")
        return [(float(low), float(high)) for low, high in found]

    @property
    def basis_points(self) -> list[float]:
        """The changes in basis points."""
        return [float(100 * q.value) for q in self._wanted if q.kind == "point"]

    def share_in(self, *texts: str, counts: Callable[[str], bool] | None = None) -> float:
        """The share of the quantities that the texts have, 0 to 1; 0 without quantities.

        Args:
            counts: whether a quantity counts, by the sentence in which it stands.
        """
        if not self._wanted:
            return 0.0
        missing = self._wanted
        for text in map(undamaged, texts):
            for quantity, place in self._numbers(text):
                left = [wanted for wanted in missing if not wanted.stands_in(quantity)]
                if len(left) < len(missing) and (counts is None or counts(_sentence(text, place))):
                    missing = left
                if not missing:
                    return 1.0
        return 1 - len(missing) / len(self._wanted)

    def _numbers(self, text: str) -> Iterator[tuple[_Quantity, int]]:
        """The quantities of a text that may be meant; to parse every number takes too long."""
        for start in self._starts:
            place = text.find(start)
            while place >= 0:
                # With its currency sign, where it has one.
                match = _NUMBER.match(text, place - 1) if place else None
                match = match or _NUMBER.match(text, place)
                if match and self._is_meant(match) and (quantity := _read(text, match)):
                    yield quantity, place
                place = text.find(start, place + 1)

    def _is_meant(self, match: re.Match[str]) -> bool:
        """Whether the number, without its unit, may be one of the query's."""
        known = self._may_be.get(match[0])
        if known is None:
            known = self._may_be[match[0]] = _number(match) in self._meant
        return known


def with_digits(query: str) -> str:
    """The query with its amounts in digits: "six and a half percent" becomes "6-1/2 percent"."""
    return _IN_WORDS.sub(_in_digits, plain_letters(query))


def _in_digits(match: re.Match[str]) -> str:
    words = [match[name].lower() for name in ("tens", "ones", "alone") if match[name]]
    part, unit = match["part"] or match["only"], match["unit"]
    if unit.lower().startswith("point"):
        if not part:
            return match[0]  # "a five point plan"
        unit = f"percentage {unit}"
    whole = [str(sum(_WORDS[word] for word in words))] if words else []
    fraction = [_PARTS[re.sub(r"[\s-]", " ", part.lower())]] if part else []
    return f"{'-'.join(whole + fraction)} {unit}"


def _read(text: str, match: re.Match[str]) -> _Quantity | None:
    """The quantity of a match, if it is one: a number alone may be a year or a page."""
    number = _number(match)
    if number is None:
        return None
    money = match[0].startswith("$")
    unit, until = _UNIT.match(text, match.end()), None
    between = None if unit else _RANGE.match(text, match.end())
    if between and (following := _NUMBER.match(text, between.end())):
        unit, until = _UNIT.match(text, following.end()), _number(following)
        until = until if until is not None and until > number else None
    if unit is None:
        if not (money or number % 1 or match["decimals"]):
            return None
        return _Quantity(number, "amount" if money else "", number, until)
    if unit["short"]:
        scale = {"mn": "m", "bn": "b", "tn": "tr"}[unit["short"].lower()]
        return _Quantity(number, "amount", number * _SCALES[scale], until)
    if unit["scale"]:
        return _Quantity(number, "amount", number * _SCALES[unit["scale"].lower()], until)
    if unit["basis"]:
        return _Quantity(number, "point", number / 100, until)
    return _Quantity(number, "point" if unit["point"] else "percent", number, until)


def _number(match: re.Match[str]) -> Fraction | None:
    return _value(match["whole"] or "0", match["part"] or match["alone"], match["decimals"])


@lru_cache(10_000)
def _value(whole: str, part: str | None, decimals: str | None) -> Fraction | None:
    """The number; adding fractions costs more than everything else about a text."""
    fraction = Fraction(_VULGAR.get(part, part)) if part else Fraction(0)
    if fraction >= 1:
        return None  # a date or a ratio
    if decimals:
        fraction = Fraction(f".{decimals}")
    return int(whole) + fraction


def _numbers(wanted: _Quantity) -> set[Fraction]:
    """The numbers as which a text may write the quantity, with one unit or another."""
    numbers = {wanted.number}
    if wanted.kind == "point":
        numbers |= {wanted.value, wanted.value * 100}
    if wanted.kind == "amount":
        numbers |= {wanted.value / scale for scale in _SCALES.values()}
    return {number for number in numbers if number == wanted.number or number.denominator <= 100}


def _starts(number: Fraction) -> set[str]:
    """What a spelling of the number begins with."""
    if number >= 1 or number == 0:
        return {str(int(number))}
    signs = {sign for sign, part in _VULGAR.items() if Fraction(part) == number}
    over = (f"{number.numerator * times}/{number.denominator * times}" for times in (1, 2, 4))
    return {"0.", *signs, *over}


def _sentence(text: str, place: int) -> str:
    begin = max((m.end() for m in _SENTENCE_END.finditer(text, 0, place)), default=0)
    end = _SENTENCE_END.search(text, place)
    return text[begin : end.start() if end else len(text)]
