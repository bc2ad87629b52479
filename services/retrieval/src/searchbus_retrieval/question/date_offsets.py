"""Distances from a date: "a year after March 2022", "two meetings before", "the day after 9/11".

What a distance means is read from the words before the date that it counts from.
"""

from __future__ import annotations

import re
from datetime import date, timedelta

from .periods import NextTo, Period, months

NUMBERS = {"a": 1, "an": 1, "one": 1, "two": 2, "three": 3, "four": 4, "five": 5, "six": 6,
           "seven": 7, "eight": 8, "nine": 9, "ten": 10, "eleven": 11, "twelve": 12}  # fmt: skip
_SIDE = r"(?P<side>before|prior\s+to|preceding|ahead\s+of|after|following|later\s+than)"
_TO_DATE = r"\s+(?:(?:the|its|their)\s+)?(?:(?:meeting|one)\s+(?:in|of|on)\s+)?(?:the\s+)?$"
_NUMBER = rf"(?P<number>\d{{1,2}}|{'|'.join(NUMBERS)}|the|some|a\s+few|several)"
_DISTANCE = re.compile(
    rf"\b(?:(?P<within>less\s+than|within|under)\s+)?{_NUMBER}\s+(?P<unit>day|week|month|year)s?\s+(?:to\s+the\s+day\s+)?"
    rf"{_SIDE}{_TO_DATE}",
    re.I,
)
_SOON = re.compile(
    rf"\b(?:shortly|soon|immediately|right|just|days|weeks)\s+{_SIDE}{_TO_DATE}", re.I
)
_MEETINGS = re.compile(
    rf"\b(?P<number>\d|{'|'.join(NUMBERS)})\s+(?:fomc\s+|policy\s+)?meetings\s+{_SIDE}{_TO_DATE}",
    re.I,
)
_LATER_ON = re.compile(
    r"(?<!\b\w)(?<!\b(?:Mr|Ms|Dr|St|vs))(?<!\b(?:Mrs|Gov))(?:[.?!][\"\u201d]?\s(?=(?-i:[A-Z]))|;\s)(?:[^.?!]*?\s)?(?:"
    r"(?P<next>(?:the|its|their)\s+(?:very\s+)?(?:next|following|subsequent)\s+"
    r"(?:one|meeting|statement|minutes|decision)\b)"
    r"|the\s+(?:one|meeting|statement)\s+(?:that\s+followed|after(?:\s+(?:that|it)\b|(?=\s*[?.,;])))"
    rf"|{_NUMBER}\s+(?P<unit>day|week|month|year|meeting)s?\s+(?P<side>later|afterwards)\b)",
    re.I,
)
"""In a later sentence than the date: "June 2023 had it. And the next meeting?". The dot of "Mr." or
"U.S." ends none."""
_REPLACED_BY_NEXT = re.compile(
    r"\b(?:in|at|by|with)\s+(?:the|its|their)\s+(?:very\s+)?(?:next|following|subsequent)\s+"
    r"(?:fomc\s+)?(?:one|meeting|statement|minutes|announcement)\b",
    re.I,
)
"""In the sentence of the date, of what took the place of something then."""
_REPLACES = re.compile(
    r"\breplac|\b(?:took|taken?|takes|in|put\s+in)\s+(?:the|its)\s+place|\bgave\s+way"
    r"|\bgiven?\s+way|\bsucceeded\b|\binstead\b",
    re.I,
)
_WORDS_OF_OLD = re.compile(r"\bused\s+to\s+(?:say|read|be|promise|call|speak)\b", re.I)
"""What such a question quotes, an earlier document says."""
_MENTIONED = re.compile(r"\b(?:(?<!what )(?<!how )about|for|of|expect\w*(?:\s+\w+)?)\s+$", re.I)
"""The documents of the date speak of the next meeting as well."""
_SPAN = re.compile(
    r"\b(?:\d{1,2}|three|six|nine|twelve|eighteen)[\s-]months?\s+"
    r"(?:to|(?:that\s+)?(?:ending|ended|ends)(?:\s+in)?|through|up\s+to)\s+(?:the\s+end\s+of\s+)?$",
    re.I,
)
"""Before the last month of a statistic's span."""
_PUBLISHED = timedelta(days=10), timedelta(days=62)
"""From when to when after its end a month's statistics are published and new."""
_MOST_STEPS = 9
_DAYS_AROUND = 3
"""Two weeks later is seldom to the day."""
_AROUND = re.compile(r"\b(?:before\s+and\s+after|after\s+and\s+before)\s+(?:the\s+)?$", re.I)
_SEVERAL = 3
"""What "a few" is, and "several"."""
_SOON_DAYS = 45


def at_a_distance(question: str, near: int, start: int, period: Period) -> Period | NextTo | None:
    """What the words of the question from `near` to `start`, where the date stands, mean.

    Returns:
        None where they say no distance from the period.
    """
    if _AROUND.search(question, near, start):
        return period
    if said := _MEETINGS.search(question, near, start):
        return NextTo(period, _is_before(said), steps=max(1, _count(said["number"])))
    if said := _DISTANCE.search(question, near, start):
        count = _count(said["number"])
        there = _moved(period, -count if _is_before(said) else count, said["unit"].lower())
        if not said["within"]:
            return there
        return Period(min(period.start, there.start), max(period.end, there.end))
    if said := _SOON.search(question, near, start):
        span = timedelta(days=_SOON_DAYS)
        if _is_before(said):
            return Period(period.start - span, period.start)
        return Period(period.start, period.end + span)
    return None


def quotes_the_old(question: str) -> bool:
    """Whether the question itself says that the words it quotes are of an earlier document."""
    return _WORDS_OF_OLD.search(question) is not None


def published_after(question: str, near: int, start: int, period: Period) -> Period | None:
    """When statistics for "the 12 months ending in" a period are published.

    Returns:
        None where the words from `near` to `start`, where the period stands, say no such span.
    """
    if _SPAN.search(question, near, start) is None:
        return None
    first, last = _PUBLISHED
    return Period(period.end + first, period.end + last)


def later_on(question: str, end: int, period: Period) -> Period | NextTo | None:
    """What is asked about by its distance from the one date, which ends at `end`: in a later
    sentence, or as what replaced something at the next meeting.

    Returns:
        None where it says none, so that the date itself is meant.
    """
    if _REPLACES.search(question) and _REPLACED_BY_NEXT.search(question, end):
        return NextTo(period, before=False, steps=1)
    said = _LATER_ON.search(question, end)
    if said is None or (said["next"] and _MENTIONED.search(question, end, said.start("next"))):
        return None
    if (unit := said["unit"]) is None or unit.lower() == "meeting":
        steps = min(_MOST_STEPS, max(1, _count(said["number"] or "one")))
        return NextTo(period, before=False, steps=steps)
    there = _moved(period, _count(said["number"]), unit.lower())
    around = timedelta(days=_DAYS_AROUND)
    return Period(there.start - around, there.end + around)


def _moved(period: Period, count: int, unit: str) -> Period:
    """The period so much later."""
    if unit in ("month", "year"):
        by = count * (12 if unit == "year" else 1)
        return Period(_in_months(period.start, by), _in_months(period.end, by))
    span = timedelta(days=count * (7 if unit == "week" else 1))
    return Period(period.start + span, period.end + span)


def _in_months(day: date, by: int) -> date:
    month = day.year * 12 + day.month - 1 + by
    first = date(month // 12, month % 12 + 1, 1)
    last = months(first.year, first.month, first.month).end - timedelta(days=1)
    return min(first + timedelta(days=day.day - 1), last)


def _count(number: str) -> int:
    said = number.lower()
    if said.isdigit():
        return int(said)
    return 1 if said == "the" else NUMBERS.get(said, _SEVERAL)


def _is_before(said: re.Match[str]) -> bool:
    return said["side"].lower().startswith(("before", "prior", "preceding", "ahead"))
