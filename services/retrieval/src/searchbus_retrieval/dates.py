"""Finds the dates in a question; they say which documents are meant.

mentioned_periods("why did rates rise in March 2022?")   # [Period(2022-03-01, 2022-04-01)]
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import date, timedelta

__all__ = ["Limit", "Period", "mentioned_limits", "mentioned_periods"]

_MONTHS = (
    "january february march april may june july august september october november december"
).split()
_MONTH = r"(?P<month>" + "|".join([*_MONTHS, *(m[:3] for m in _MONTHS), "sept"]) + r")\.?"
_YEAR = r"(?P<year>(?:19|20)\d\d)"
_PATTERNS = (
    re.compile(r"\b(?P<y>(?:19|20)\d\d)-(?P<m>\d\d)(?:-(?P<d>\d\d))?\b"),
    re.compile(
        rf"\b{_MONTH}\s+(?P<day>\d{{1,2}})(?:\s*(?:-|–|and|to)\s*(?P<last>\d{{1,2}}))?,?\s+{_YEAR}\b",
        re.I,
    ),
    re.compile(rf"\b{_MONTH}(?:\s+of)?,?\s+{_YEAR}\b", re.I),
    re.compile(rf"\bq(?P<quarter>[1-4])\s*(?:of\s+)?{_YEAR}\b", re.I),
    re.compile(rf"\b(?P<ordinal>first|second|third|fourth)\s+quarter\s+(?:of\s+)?{_YEAR}\b", re.I),
    re.compile(
        rf"\b(?P<part>early|mid|late|spring|summer|autumn|fall|winter|beginning of|end of)"
        rf"[\s-]+(?:of\s+)?{_YEAR}\b",
        re.I,
    ),
    re.compile(rf"\b{_YEAR}\b"),
)
_LIMITING = re.compile(
    r"\b(through|thru|until|till|by|before|after|beyond|to (?:begin|start|end) in)\s+"
    r"(?:the\s+)?(?:end\s+of\s+)?(?:the\s+)?$",
    re.I,
)
"""Stands before a date that the document only mentions: "low at least through mid-2013" was said
long before 2013."""
_LATER = ("after", "beyond")
_PARTS = {
    "early": (1, 4), "beginning of": (1, 3), "winter": (1, 3), "spring": (3, 6), "mid": (5, 8),
    "summer": (6, 9), "autumn": (9, 12), "fall": (9, 12), "late": (9, 12), "end of": (10, 12),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Period:
    """From `start` to the day before `end`."""

    start: date
    end: date

    @property
    def days(self) -> int:
        """The length in days."""
        return (self.end - self.start).days


@dataclass(frozen=True, slots=True)
class Limit:
    """A date that documents only mention: those that do are from before it, or from after it.

    Attributes:
        day: documents of earlier days are meant, or those of this day and later.
    """

    day: date
    before: bool


def mentioned_periods(question: str) -> list[Period]:
    """Every period that the question names, in order; each in its most exact form."""
    return [period for period, limiting in _scan(question) if limiting is None]


def mentioned_limits(question: str) -> list[Limit]:
    """The dates that the question names as an end: "through the end of 2012", "after 2003"."""
    return [
        Limit(period.end, before=limiting not in _LATER)
        for period, limiting in _scan(question)
        if limiting is not None
    ]


def _scan(question: str) -> list[tuple[Period, str | None]]:
    """Each period of the question, and the word before it that makes it a limit."""
    taken: list[tuple[int, int]] = []
    found: list[tuple[int, Period, str | None]] = []
    for pattern in _PATTERNS:
        for match in pattern.finditer(question):
            if any(match.start() < end and start < match.end() for start, end in taken):
                continue
            limiting = _LIMITING.search(question, 0, match.start())
            period = _period(match.groupdict())
            if period is not None or limiting:
                taken.append(match.span())
            if period is not None:
                found.append((match.start(), period, limiting[1].lower() if limiting else None))
    return [(period, word) for _, period, word in sorted(found, key=lambda entry: entry[0])]


def _period(parts: dict[str, str | None]) -> Period | None:
    try:
        if parts.get("y"):
            year, month = int(parts["y"] or 0), int(parts["m"] or 0)
            if parts["d"]:
                return _days(date(year, month, int(parts["d"])), 1)
            return _months(year, month, month)
        year = int(parts["year"] or 0)
        if parts.get("month"):
            month = [m[:3] for m in _MONTHS].index((parts["month"] or "")[:3].lower()) + 1
            if parts.get("day"):
                # A meeting ends a day after its start: "January 30-31" and "January 30" alike.
                start = date(year, month, int(parts["day"] or 0))
                last = int(parts["last"] or 0) if parts.get("last") else start.day + 1
                return _days(start, max(1, last - start.day + 1))
            return _months(year, month, month)
        if parts.get("quarter"):
            first = 3 * int(parts["quarter"] or 1) - 2
            return _months(year, first, first + 2)
        if parts.get("ordinal"):
            order = ["first", "second", "third", "fourth"].index((parts["ordinal"] or "").lower())
            return _months(year, 3 * order + 1, 3 * order + 3)
        if parts.get("part"):
            return _months(year, *_PARTS[re.sub(r"\s+", " ", (parts["part"] or "").lower())])
        return _months(year, 1, 12)
    except ValueError:
        return None


def _days(start: date, count: int) -> Period:
    return Period(start, start + timedelta(days=count))


def _months(year: int, first: int, last: int) -> Period:
    end = date(year + 1, 1, 1) if last == 12 else date(year, last + 1, 1)
    return Period(date(year, first, 1), end)
