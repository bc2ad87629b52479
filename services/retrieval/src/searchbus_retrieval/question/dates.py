"""Finds the dates in a question; they say which documents are meant.

dates_of("why did rates rise in March 2022?").periods   # (Period(2022-03-01, 2022-04-01),)
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import date, timedelta
from functools import lru_cache

from .date_offsets import at_a_distance, later_on, published_after, quotes_the_old
from .date_words import MONTHS, month_of, spelled_out
from .periods import Limit, NextTo, Period, months
from .words import plain_letters

_NAMES = "|".join([*MONTHS, *(m[:3] for m in MONTHS), "sept"])
_MONTH = rf"(?P<month>{_NAMES})\.?"
_YEAR = r"(?P<year>(?:(?:19|20)\d\d|['\u2019]\d\d)(?![\d'])|(?<=[A-Za-z. ])0\d(?!\s*[,\d]))"
"""Four digits, or two after an apostrophe; without one, "Dec 08" is no day."""
_FULL_YEAR = r"(?P<year>(?:(?:19|20)\d\d|['\u2019]\d\d)(?![\d']))"
_TH = r"(?:st|nd|rd|th)?"
_NO_FRACTION = r"(?![\d/]|\s*(?:percent|per\s+cent|%|points?|basis|of\b))"
_PATTERNS = (
    re.compile(
        rf"\b(?P<turn>winter)[\s-]+(?:(?:of|in)\s+)?{_FULL_YEAR}"
        r"\s*[-/\u2013]\s*(?:\d\d)?\d\d\b",
        re.I,
    ),
    re.compile(r"\b(?P<y>(?:19|20)\d\d)-(?P<m>\d\d)(?:-(?P<d>\d\d))?\b"),
    re.compile(r"(?<![\d/.-])(?P<m>\d{1,2})/(?P<d>\d{1,2})/(?P<y>(?:19|20)?\d\d)(?![\d/])"),
    re.compile(rf"(?<![\d/.-])(?P<m>0?[1-9]|1[0-2])/(?P<y>(?:19|20)?\d\d){_NO_FRACTION}", re.I),
    re.compile(
        rf"\b{_MONTH}\s+(?P<day>\d{{1,2}}){_TH}"
        rf"(?:\s*(?:-|\u2013|and|to)\s*(?P<last_month>{_NAMES})\.?\s+(?P<last>\d{{1,2}}){_TH})"
        rf",?\s+{_FULL_YEAR}\b",
        re.I,
    ),
    re.compile(
        rf"\b{_MONTH}\s+(?P<day>\d{{1,2}}){_TH}(?:\s*(?:-|\u2013|and|to)\s*(?P<last>\d{{1,2}}){_TH})?"
        rf",?\s+{_FULL_YEAR}\b",
        re.I,
    ),
    re.compile(rf"\b(?P<day>\d{{1,2}}){_TH}\s+(?:of\s+)?{_MONTH},?\s+{_FULL_YEAR}\b", re.I),
    re.compile(rf"\b{_MONTH}\s*[-/\u2013]\s*(?P<last_month>{_NAMES})\.?,?\s+{_FULL_YEAR}", re.I),
    re.compile(rf"\b{_MONTH}(?:\s+of)?,?\s+{_YEAR}", re.I),
    re.compile(rf"\bq(?P<quarter>[1-4])\s*(?:of\s+)?{_FULL_YEAR}\b", re.I),
    re.compile(rf"\b(?P<quarter>[1-4])q\s*(?:of\s+)?{_FULL_YEAR}\b", re.I),
    re.compile(r"\b(?P<quarter>[1-4])q(?P<year>\d\d)\b", re.I),
    re.compile(rf"\b(?P<month>{_NAMES})-(?P<year>\d\d)\b(?!-)", re.I),
    re.compile(rf"(?<!\w){_FULL_YEAR}\s*-?q(?P<quarter>[1-4])\b", re.I),
    re.compile(
        rf"\b(?P<ordinal>first|second|third|fourth|last|1st|2nd|3rd|4th)\s+quarter\s+"
        rf"(?:of\s+)?{_FULL_YEAR}\b",
        re.I,
    ),
    re.compile(
        rf"\b(?P<part>early|mid|middle|late|spring|summer|autumn|fall|winter|beginning|start|end"
        rf"|year-end|first half|second half)[\s-]+(?:(?:of|in)\s+)?{_FULL_YEAR}\b",
        re.I,
    ),
    re.compile(
        r"\b(?:(?P<third>early|mid|late)[\s-]+)?(?:the\s+)?(?P<decade>(?:19|20)\d0)s\b", re.I
    ),
    re.compile(rf"(?<!\w){_FULL_YEAR}(?![\w'])"),
)
_EVENT = (
    r"(?:(?:fomc|policy|committee|emergency|special|regular|(?:un)?scheduled)\s+)*"
    r"(?:meetings?|decisions?|announcements?)\b"
)
_HELD = rf"(?:{_EVENT}|statements?\b|minutes\b)"
_HELD_IN = re.compile(rf"\b{_HELD}\s+(?:(?:\w+\s+){{0,2}}held\s+)?(?:(?:of|in|on|from)\s+)?$", re.I)
_WAS_HELD = re.compile(rf"(?:['\u2019]s)?\s+{_HELD}", re.I)
_BEFORE, _AFTER = (
    r"before|prior\s+to|preceding|previous\s+to|that\s+preceded",
    r"after|following|subsequent\s+to|that\s+followed",
)
_THE = r"\s+(?:the\s+)?(?:(?:one|that|meeting)\s+(?:in|of|on|held\s+(?:in|on))\s+)?(?:the\s+)?"
_LIMITING = re.compile(
    r"\b(?P<word>through|thru|until|till|by|before|prior to|after|beyond|following|since"
    r"|to (?:begin|start|end) in"
    r"|(?:(?:push|extend|shift|stretch)\w*(?:\s+(?:it|out|back))?|out)\s+to)\s+"
    r"(?:(?:at\s+least|about|around|roughly|sometime\s+in)\s+)?"
    r"(?:the\s+)?(?:(?:end|middle|beginning)\s+of\s+)?(?:the\s+)?"
    r"(?P<event>meeting\s+(?:in|of|on|held\s+(?:in|on))\s+)?(?:the\s+)?$",
    re.I,
)
"""Stands before a date that the document only mentions: "low at least through mid-2013" was said
long before 2013. But what is issued after or following a meeting is of that meeting."""
_LATER = ("after", "beyond", "following", "since")
_OF_MEETING = ("after", "following")
_NEXT_TO = re.compile(
    rf"\b(?:previous|preceding|prior|last|next|following|subsequent)\s+(?:\w+\s+)?"
    rf"(?:meeting|statement|minutes|decision)s?\s+(?:(?P<before>{_BEFORE}|to)|(?P<after>{_AFTER}))"
    rf"{_THE}$"
    rf"|\bmeeting\s+(?:(?:just|right|immediately|directly|that\s+came)\s+)*"
    rf"(?:(?P<just_before>{_BEFORE})|(?P<just_after>{_AFTER})){_THE}$"
    rf"|\b(?:first|next|last)\s+{_EVENT}\s+(?:(?P<clause_before>before)|(?P<clause_after>after))"
    rf"\s+(?:\w+\s+){{1,6}}(?:in|on)\s+$"
    rf"|\b(?:statement|minutes)\s+(?:(?:just|right|immediately|directly)\s+)*"
    rf"(?P<issued_before>{_BEFORE}){_THE}$",
    re.I,
)
"""The meeting before or after that of a date; "the statement after" it is its own."""
_COMPARES = re.compile(
    r"\b(?:compared?|comparison|versus|vs|differ\w*|chang(?:e|es|ed|ing)|new|dropp?(?:ed|ing)|"
    r"remov(?:e|ed|ing)|add(?:ed|ing)|instead|rather than|than|replac(?:e|ed|ing)|"
    r"in (?:its|their) place|disappear\w*|alter\w*|revis\w*|modif\w*|not there|no longer|"
    r"(?:left|taken|took) out|"
    r"as (?:big|large|much|many|high|low)|turn(?:s|ed)? into|became|become)\b",
    re.I,
)
_END_OF = re.compile(
    rf"\b(?:(?P<first>first)|last|final)\s+{_EVENT}\s+(?:of|in)\s+(?:the\s+year\s+)?$", re.I
)
"""The first or last meeting of a period, unless a clause follows that says what was said there."""
_NTH_OF = re.compile(
    rf"\b(?P<nth>second|third|fourth|fifth|sixth|seventh|eighth|[2-8](?:nd|rd|th))"
    rf"(?P<from_end>[\s-]+to[\s-]+(?:last|final))?\s+{_EVENT}\s+(?:of|in)\s+(?:the\s+year\s+)?$",
    re.I,
)
_NOT = re.compile(r"\bnot\s+(?:(?:in|on|of|the)\s+)*$", re.I)
"""Before a date that is not meant: "in September 2007, not in August"."""
_CLAUSE = re.compile(
    r"\W*\s(?:that|which|where|when|(?:in|at|on) which|to|mention\w*|with)\b", re.I
)
_RANGE_FROM = re.compile(r"\b(?:between|from)\s+(?:the\s+)?(?:meetings?\s+(?:in|of)\s+)?$", re.I)
_RANGE_TO = re.compile(
    rf"\s*(?:{_EVENT})?\s*(?:and|to|through|until|till|-|\u2013)\s+(?:the\s+)?$", re.I
)
_FOLLOWED_BY_EVENT = re.compile(
    rf"(?:'s)?\s+(?:{_EVENT}|(?:(?:rate|funds\s+rate)\s+)?(?:hike|increase|cut|move|statement)\b)",
    re.I,
)
_REACH_CHARS = 120
"""Before a date, in which the words stand that say what it means."""
_NO_END = date(2100, 1, 1)
_PARTS = {
    "early": (1, 4), "beginning": (1, 3), "start": (1, 3), "winter": (1, 3), "spring": (3, 6),
    "mid": (5, 8), "middle": (5, 8), "summer": (6, 9), "autumn": (9, 12), "fall": (9, 12),
    "late": (9, 12), "end": (10, 12), "year-end": (11, 12), "first half": (1, 6),
    "second half": (7, 12),
}  # fmt: skip
_THIRDS = {"": (0, 10), "early": (0, 4), "mid": (3, 7), "late": (6, 10)}
"""Years of a decade."""
_ORDINALS = {
    "fir": 0, "1st": 0, "sec": 1, "2nd": 1, "thi": 2, "3rd": 2, "fou": 3, "4th": 3, "las": 3,
    "fif": 4, "5th": 4, "six": 5, "6th": 5, "sev": 6, "7th": 6, "eig": 7, "8th": 7,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Dates:
    """What a question says of dates, each in its most exact form and in order.

    Attributes:
        periods: that it names.
        limits: that it names as an end: "through the end of 2012", "after 2003".
        beside: dates next to which it looks: "the meeting before that of July 2023".
        held: periods that it says of a meeting, or of what comes of one, or in which statistics
            that it asks for were published.
        compared: the later one of two dates, where it asks what changed.
        quotes_old: whether what it quotes is of an earlier document than it asks for.
    """

    periods: tuple[Period, ...]
    limits: tuple[Limit, ...]
    beside: tuple[NextTo, ...]
    held: tuple[Period, ...]
    compared: Period | None = None
    quotes_old: bool = False


@lru_cache(1_000)
def dates_of(question: str) -> Dates:
    """The dates of a question."""
    spelled = spelled_out(plain_letters(question))
    found, held, range_end, counts_on = _scan(spelled)
    periods = [one for one in found if isinstance(one, Period)]
    compared = range_end or (max(periods, key=lambda one: one.start) if periods[1:] else None)
    return Dates(
        # "In 1994, what did the August meeting do": the year alone says less.
        tuple(one for one in periods if not any(one.holds(other) for other in periods)),
        tuple(one for one in found if isinstance(one, Limit)),
        tuple(one for one in found if isinstance(one, NextTo)),
        tuple(one for one in periods if one in held),
        compared if _COMPARES.search(spelled) else None,
        counts_on or quotes_the_old(spelled),
    )


def asks_for_change(question: str) -> bool:
    """Whether the question compares two dates."""
    return bool(_COMPARES.search(question)) and len(dates_of(question).periods) > 1


def months_between(first: str, last: str) -> Period:
    """From the beginning of a month to the end of another: "2001-09", "2001-12".

    Raises:
        ValueError: one is not a month, or the last is before the first.
    """
    start, end = date.fromisoformat(f"{first}-01"), date.fromisoformat(f"{last}-01")
    if end < start:
        raise ValueError(f"{last} is before {first}")
    return Period(start, months(end.year, end.month, end.month).end)


def _scan(
    question: str,
) -> tuple[list[Period | Limit | NextTo], set[Period], Period | None, bool]:
    """What the dates mean, the periods of events, the last date of a range, and whether it asks
    about a later document than that of its date."""

    def before(pattern: re.Pattern[str], start: int) -> re.Match[str] | None:
        return pattern.search(question, max(0, start - _REACH_CHARS), start)

    taken: list[tuple[int, int]] = []
    named: list[tuple[int, int, Period]] = []
    for pattern in _PATTERNS:
        for match in pattern.finditer(question):
            if any(match.start() < end and start < match.end() for start, end in taken):
                continue
            parts = {name: said for name, said in match.groupdict().items() if said}
            period = _period(parts)
            # A day that no calendar has says nothing: "February 30, 2015" is not all of 2015.
            is_day = "day" in parts or "d" in parts
            if period is not None or is_day or before(_LIMITING, match.start()):
                taken.append(match.span())
            if period is not None:
                named.append((*match.span(), period))
    found: list[Period | Limit | NextTo] = []
    held = {
        period
        for start, end, period in named
        if _WAS_HELD.match(question, end) or before(_HELD_IN, start)
    }
    opened: tuple[int, Period] | None = None
    """The beginning of a range, and where it ends in the question."""
    range_end: Period | None = None
    for start, end, period in sorted(named, key=lambda entry: entry[0]):
        if (
            opened is not None
            and period.end > opened[1].start
            and _RANGE_TO.fullmatch(question, opened[0], start)
        ):
            found[-1] = Period(opened[1].start, period.end)
            opened, range_end = None, period
            continue
        if found and before(_NOT, start):
            continue
        if published := published_after(question, max(0, start - _REACH_CHARS), start, period):
            found.append(published)
            held.add(published)
            continue
        found.append(_meant(question, start, end, period))
        opened = (end, period) if before(_RANGE_FROM, start) else None
    # An end that the question only mentions is not what a later sentence counts from.
    if len(dated := [one for one in found if not isinstance(one, Limit)]) == 1:
        for _, end, period in named:
            if period == dated[0] and (later := later_on(question, end, period)) is not None:
                found[found.index(period)] = later
                return found, held, None, True
    return found, held, range_end, False


def _meant(question: str, start: int, end: int, period: Period) -> Period | Limit | NextTo:
    near = max(0, start - _REACH_CHARS)
    if beside := _NEXT_TO.search(question, near, start):
        return NextTo(
            period, before=not (beside["after"] or beside["just_after"] or beside["clause_after"])
        )
    if distance := at_a_distance(question, near, start, period):
        return distance
    if (nth := _NTH_OF.search(question, near, start)) and not _CLAUSE.match(question, end):
        from_end = bool(nth["from_end"])
        day = period.end if from_end else period.start
        steps = _ORDINALS[nth["nth"].lower()[:3]] + 1
        return NextTo(Period(day, day), before=from_end, steps=steps)
    ending = _END_OF.search(question, near, start)
    if ending is not None and not _CLAUSE.match(question, end):
        day = period.start if ending["first"] else period.end
        return NextTo(Period(day, day), before=not ending["first"])
    limiting = _LIMITING.search(question, near, start)
    if limiting is None:
        return period
    word = limiting["word"].lower()
    of_meeting = limiting["event"] or _FOLLOWED_BY_EVENT.match(question, end)
    if of_meeting and word in _OF_MEETING:
        return period
    if word == "since":
        # With a meeting it asks for what came then; "the lowest since 1981" only mentions it.
        return Period(period.start, _NO_END) if of_meeting else Limit(period.start, before=False)
    if of_meeting and word in ("before", "prior to"):
        return NextTo(period, before=True)
    return Limit(period.end, before=word not in _LATER)


def _period(parts: dict[str, str]) -> Period | None:
    try:
        if "decade" in parts:
            year, (first, last) = int(parts["decade"]), _THIRDS[parts.get("third", "").lower()]
            return Period(date(year + first, 1, 1), date(year + last, 1, 1))
        if "y" in parts:
            year, month = _year(parts["y"]), int(parts["m"])
            if "d" not in parts:
                return months(year, month, month)
            day = int(parts["d"])
            if month > 12:  # the day stands first
                month, day = day, month
            return _days(date(year, month, day), 1)
        year = _year(parts["year"])
        if "month" in parts:
            month = month_of(parts["month"])
            if "day" not in parts:
                return months(year, month, month_of(parts.get("last_month", parts["month"])))
            # A meeting ends a day after its start: "January 30-31" and "January 30" alike.
            start = date(year, month, int(parts["day"]))
            end = start + timedelta(days=1)
            if "last_month" in parts:
                end = date(year, month_of(parts["last_month"]), int(parts["last"]))
            elif "last" in parts:
                end = start + timedelta(days=int(parts["last"]) - start.day)
            return _days(start, max(1, (end - start).days + 1))
        if "quarter" in parts:
            first = 3 * int(parts["quarter"]) - 2
            return months(year, first, first + 2)
        if "ordinal" in parts:
            order = _ORDINALS[parts["ordinal"].lower()[:3]]
            return months(year, 3 * order + 1, 3 * order + 3)
        if "turn" in parts:
            return Period(date(year, 12, 1), date(year + 1, 4, 1))
        if "part" in parts:
            return months(year, *_PARTS[re.sub(r"\s+", " ", parts["part"].lower())])
        return months(year, 1, 12)
    except ValueError:
        return None


def _year(digits: str) -> int:
    """Two digits are of this century below 50."""
    year = int(digits.lstrip("'\u2019"))
    return year if year >= 100 else year + (2000 if year < 50 else 1900)


def _days(start: date, count: int) -> Period:
    return Period(start, start + timedelta(days=count))
