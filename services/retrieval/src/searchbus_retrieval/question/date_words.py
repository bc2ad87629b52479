"""Spells out what people leave unsaid of dates, before the dates are read.

spelled_out("between the July and September 1996 meetings")
# "between the July 1996 and September 1996 meetings"
"""

from __future__ import annotations

import re

from rapidfuzz.distance import OSA

MONTHS = (
    "january february march april may june july august september october november december"
).split()
DATE_WORD = re.compile(rf"(?:19|20)\d\d|{'|'.join(MONTHS)}")
"""A word of a date, in small letters."""
_MONTH = rf"(?:{'|'.join([*MONTHS, *(month[:3] for month in MONTHS), 'sept'])})\b\.?"
_YEAR = r"(?:(?:19|20)\d\d|['\u2019]\d\d)(?!\d)"
_HOLIDAYS = {
    "january": r"new\s+year(?:['\u2019]?s(?:\s+day)?)?|epiphany",
    "february": r"valentine(?:['\u2019]?s)?(?:\s+day)?|groundhog\s+day|presidents?['\u2019]?\s+day",
    "march": r"st\.?\s+patrick(?:['\u2019]?s)?(?:\s+day)?|ides\s+of\s+march|pi\s+day",
    "april": r"april\s+fools?(?:['\u2019]?s?)?(?:\s+day)?|tax\s+day|earth\s+day",
    "may": r"memorial\s+day|may\s+day|mother['\u2019]?s\s+day",
    "june": r"juneteenth",
    "july": r"independence\s+day|(?:the\s+)?fourth\s+of\s+july",
    "september": r"labou?r\s+day",
    "october": r"halloween|columbus\s+day",
    "november": r"thanksgiving|veterans\s+day|guy\s+fawkes|election\s+day|black\s+friday",
    "december": r"christmas|xmas|boxing\s+day|new\s+year['\u2019]?s\s+eve",
}
_NEAR = (
    r"(?:(?:(?:just|right|shortly|directly)\s+)?"
    r"(?:before|after|around|near|at|over|in|on)\s+)?(?:the\s+)?"
)
"""Days of one month: before Christmas is in December."""
_ENDS = r"(?P<end>first|last|final)"
_SAID_FIRST = re.compile(
    rf"\b(?P<when>(?:(?:q[1-4]|spring|summer|autumn|fall|winter)\s+(?:of\s+)?)?{_YEAR})"
    rf"(?:,|:|['\u2019]s)\s*(?:the\s+|its\s+)?{_ENDS}\s+(?P<event>meeting)\b",
    re.I,
)
_SPELLINGS: tuple[tuple[re.Pattern[str], str], ...] = (
    # Words for a meeting, and "the one after".
    (re.compile(r"\b(?:gathering|get-together|session|sitting)(s?)\b", re.I), r"meeting\1"),
    (re.compile(r"\bthe\s+one\s+(?=(?:(?:just|right)\s+)?(?:before|after|following)\b)", re.I),
     "the meeting "),
    (re.compile(r"\bpenultimate\b|\bnext[\s-]+to[\s-]+last\b", re.I), "second to last"),
    (re.compile(r"\b(?:opening|very\s+first)\s+(?=(?:\w+\s+){0,2}meeting\b)", re.I), "first "),
    (re.compile(r"\b(?:closing|very\s+last)\s+(?=(?:\w+\s+){0,2}meeting\b)", re.I), "last "),
    (re.compile(rf"\b{_ENDS}\s+(?P<when>{_YEAR})\s+(?P<event>(?:fomc\s+|policy\s+)?meeting)\b",
                re.I), r"\g<end> \g<event> of \g<when>"),
    (re.compile(r"(?<![\d/.-])9/11(?![\d/-])"), "September 11, 2001"),
    (re.compile(r"\byear[\s-]+2000(?=\s+(?:\w+\s+)?(?:problem|bug|issue|changeover|rollover|"
                r"readiness|compliance|transition)s?\b)", re.I), "Y2K"),
    (_SAID_FIRST, r"\g<end> \g<event> of \g<when>"),
    (re.compile(r"\b((?:19|20)\d\d)['\u2019]s\b"), r"\1"),
    *((re.compile(rf"\b{_NEAR}(?:{said})(?:\s+in)?(?=(?:\s+of|,)?\s+{_YEAR})", re.I), f"in {month}")
      for month, said in _HOLIDAYS.items()),
)  # fmt: skip
_SHARED_YEAR = re.compile(
    rf"\b(?P<first>{_MONTH})(?P<join>\s*(?:,|and|or|to|through|versus|vs\.?|with)\s*"
    rf"(?:(?:the|that|those|one|ones|of|in)\s+)*)(?P<rest>{_MONTH},?\s+(?:of\s+)?(?P<year>{_YEAR}))",
    re.I,
)
_MEETING_BETWEEN = re.compile(
    rf"\bmeetings?\s+between\s+(?:(?:the|that|those|one|ones|of|in)\s+)*(?P<first>{_MONTH})\s+"
    rf"(?P<year>{_YEAR})\s+and\s+(?:(?:the|that|those|one|ones|of|in)\s+)*(?P<last>{_MONTH})\s+"
    rf"(?P<last_year>{_YEAR})",
    re.I,
)
_WORDS = ("march", "may")
"""Months whose names are other words, too: they need their capital."""
_ALONE = re.compile(
    rf"\b(?:{'|'.join(month for month in MONTHS if month not in _WORDS)}|(?-i:March|May))\b"
    rf"(?!\.?,?\s+(?:of\s+)?(?:\d|{_YEAR})|\s*[-/\u2013])",
    re.I,
)
_YEARS = re.compile(rf"(?<![\w/.-]){_YEAR}(?![\w/-])")


_MISSPELT = re.compile(
    rf"\b[a-z]{{4,10}}\b(?P<before_year>(?=\.?,?\s+(?:\d{{1,2}}(?:st|nd|rd|th)?,?\s+)?(?:of\s+)?{_YEAR}))?",
    re.I,
)
"""A short word may be another one: it is a month only before a year."""


def _corrected(match: re.Match[str]) -> str:
    """The long name of a month that is one typing error away."""
    word = match[0].lower()
    least_chars = 7 if match["before_year"] is None else 5
    long = (month for month in MONTHS if len(month) >= least_chars)
    near = (month for month in long if OSA.distance(word, month, score_cutoff=1) == 1)
    return next(near, match[0])


def spelled_out(question: str) -> str:
    """The question with a year at each month, and with the usual words for meetings."""
    question = _MISSPELT.sub(_corrected, question)
    for pattern, spelling in _SPELLINGS:
        question = pattern.sub(spelling, question)
    for _ in range(3):  # a list of four months
        question = _SHARED_YEAR.sub(r"\g<first> \g<year>\g<join>\g<rest>", question)
    question = _MEETING_BETWEEN.sub(_months_between, question)
    years = {match[0] for match in _YEARS.finditer(question)}
    if len(years) != 1:
        return question
    (year,) = years
    return _ALONE.sub(lambda match: f"{match[0]} {year}", question)


def _months_between(match: re.Match[str]) -> str:
    first, last = (month_of(match[name]) - 1 for name in ("first", "last"))
    if match["year"] != match["last_year"] or last - first < 2:
        return match[0]
    year = match["year"]
    return f"meeting from {MONTHS[first + 1]} {year} to {MONTHS[last - 1]} {year}"


def month_of(name: str) -> int:
    """The number of a month, 1 to 12, by the first three letters of its name or more."""
    return [month[:3] for month in MONTHS].index(name[:3].lower()) + 1
