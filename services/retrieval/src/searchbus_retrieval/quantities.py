"""Finds the quantities of a query in a passage, however they are spelled.

`5.25 to 5.5 percent` stands in "5-1/4 to 5-1/2 percent" and in "5¼ to 5½ %": to words and vectors,
these are different texts.
"""

from __future__ import annotations

import re
from fractions import Fraction

__all__ = ["Quantities"]

_HYPHENS = "-\u2010\u2011\u2012\u2013\u2212"
_VULGAR = {
    "¼": "1/4", "½": "1/2", "¾": "3/4", "⅛": "1/8", "⅜": "3/8", "⅝": "5/8", "⅞": "7/8",
    "⅓": "1/3", "⅔": "2/3",
}  # fmt: skip
_PART = rf"(?:[1-9]\d?/(?:2|3|4|8|16|32)|[{''.join(_VULGAR)}])"
_NUMBER = re.compile(
    r"(?<![\w.,/])\$?"
    rf"(?:(?P<whole>\d{{1,9}})(?:[{_HYPHENS} ]?(?P<part>{_PART})|\.(?P<decimals>\d{{1,6}}))?"
    rf"|(?P<alone>{_PART}))(?![\w/]|[.,]\d)"
)
_UNIT = re.compile(
    rf"[{_HYPHENS}\s]{{0,3}}(?:%|per ?cent|basis[{_HYPHENS}\s]points?|bps?\b|(?:m|b|tr)illion)"
    rf"|\s*(?:to|and|[{_HYPHENS}])\s*\$?[\d{''.join(_VULGAR)}]",
    re.I,
)
"""A number that stands alone may be a year or a page."""
_MAX_QUANTITIES = 8
"""Of one query."""


class Quantities:
    """The numbers of a query that have a unit, a fraction or a currency sign."""

    def __init__(self, query: str) -> None:
        found = dict.fromkeys(
            value
            for match in _NUMBER.finditer(query)
            if _tells(query, match) and (value := _value(match)) is not None
        )
        self._values = frozenset(list(found)[:_MAX_QUANTITIES])

    def __bool__(self) -> bool:
        return bool(self._values)

    @property
    def spellings(self) -> list[str]:
        """The usual spelling of the fractions among them, as `5-1/4`, to be found as words."""
        return [_spelled(value) for value in sorted(self._values) if value % 1]

    def share_in(self, *texts: str) -> float:
        """The share of the quantities that one of the texts has, 0 to 1; 0 without quantities."""
        if not self._values:
            return 0.0
        there = {
            value
            for text in texts
            for match in _NUMBER.finditer(text)
            if (value := _value(match)) in self._values and _tells(text, match)
        }
        return len(there) / len(self._values)


def _tells(text: str, match: re.Match[str]) -> bool:
    return (
        match["part"] is not None
        or match["decimals"] is not None
        or match["alone"] is not None
        or match[0].startswith("$")
        or _UNIT.match(text, match.end()) is not None
    )


def _value(match: re.Match[str]) -> Fraction | None:
    part = match["part"] or match["alone"]
    fraction = Fraction(_VULGAR.get(part, part)) if part else Fraction(0)
    if fraction >= 1:
        return None  # a date or a ratio
    if match["decimals"]:
        fraction = Fraction(f".{match['decimals']}")
    return int(match["whole"] or 0) + fraction


def _spelled(value: Fraction) -> str:
    return f"{int(value)}-{value % 1}" if value > 1 else str(value)
