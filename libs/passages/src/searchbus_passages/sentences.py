"""Where sentences begin and end in a text, in characters, and what stands above each.

Every visible character is in exactly one sentence. A heading, an item of a list, a row of a table
and a paragraph end a sentence, too; what is longer than MAX_CHARS is cut between words.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence
from typing import NamedTuple

MAX_CHARS = 600
_END = re.compile(
    r"[.!?\u2026][\"'\u201d\u2019)\]]{0,4}(?=\s)|[\u3002\uff01\uff1f]+|\r?\n(?=[ \t]*\r?\n)"
    r"|\n(?=[ \t]{0,8}(?:[-*\u2022|#>]|\d{1,3}[.)]\s))"
)
_ABBREVIATION = re.compile(
    r"(?:\b(?:[A-Za-z]|approx|mrs?|ms|messrs|dr|prof|st|vs|inc|co|corp|[js]r|cf|figs?|eqs?|al|gov|sen"
    r"|rep|gen|jan|feb|mar|apr|jun|jul|aug|sept?|oct|nov|dec)|\.[A-Za-z])\.$",
    re.IGNORECASE,
)
_LONGEST_ABBREVIATION = 8
_NUMBER = re.compile(r"[ \t]*(?:#{1,6}[ \t]+)?[*_]{0,3}\d{1,3}(?:\.\d{1,3}){0,5}\.")
_LONGEST_NUMBER = 40


class Span(NamedTuple):
    """`text[start:end]`, in characters."""

    start: int
    end: int


def sentences(text: str, start: int = 0, end: int | None = None) -> Iterator[Span]:
    """The sentences between two offsets, without the white space around them."""
    end = len(text) if end is None else end
    position = start
    for match in _END.finditer(text, start, end):
        if match[0][0] == "." and _goes_on(text, match.end(), end, match.start()):
            continue
        yield from _pieces(text, position, match.end())
        position = match.end()
    yield from _pieces(text, position, end)


def _goes_on(text: str, after: int, end: int, full_stop: int) -> bool:
    """Whether a full stop ends no sentence: a small letter follows, or it belongs to a known
    abbreviation or to the number of a heading or an item.
    """
    following = text[after : min(end, after + 3)].lstrip()
    if following[:1].islower():
        return True
    line = text.rfind("\n", max(0, full_stop - _LONGEST_NUMBER), full_stop) + 1
    if full_stop - line <= _LONGEST_NUMBER and _NUMBER.fullmatch(text, line, full_stop + 1):
        return True
    before = text[max(0, full_stop - _LONGEST_ABBREVIATION) : full_stop + 1]
    return _ABBREVIATION.search(before) is not None


def trimmed(text: str, start: int, end: int) -> tuple[int, int]:
    """The ends of a part of a text without the white space at them."""
    while start < end and text[start].isspace():
        start += 1
    while end > start and text[end - 1].isspace():
        end -= 1
    return start, end


def _pieces(text: str, start: int, end: int) -> Iterator[Span]:
    start, end = trimmed(text, start, end)
    while end - start > MAX_CHARS:
        cut = _cut(text, start, start + MAX_CHARS)
        yield Span(*trimmed(text, start, cut))
        start, end = trimmed(text, cut, end)
    if start < end:
        yield Span(start, end)


def _cut(text: str, start: int, end: int) -> int:
    """Where to cut what is too long: at a line's end, else at a space, else between letters."""
    for mark in "\n ":
        found = text.rfind(mark, start + MAX_CHARS // 4, end)
        if found > 0:
            return found
    return whole_letter(text, start, end)


def whole_letter(text: str, start: int, end: int) -> int:
    """The last offset up to `end` that does not part a letter from its combining marks."""
    found = end
    while found > start + 1 and found < len(text) and _joins(text[found - 1], text[found]):
        found -= 1
    return found if found > start + 1 else end


def _joins(before: str, char: str) -> bool:
    return (
        unicodedata.combining(char) != 0
        or char in "\u200d\ufe0e\ufe0f"
        or before == "\u200d"
        or before + char == "\r\n"
        or "\U0001f3fb" <= char <= "\U0001f3ff"
    )


_HEADING = re.compile(r"#{1,6}\s")
_ITEM = re.compile(r"(?:[-*\u2022]|\d{1,3}[.)])\s")


def contexts(text: str, spans: Sequence[Span]) -> list[tuple[Span, ...]]:
    """The context of each sentence, of all of a text or a part, in its order; none is a part of the
    sentence."""
    found: list[tuple[Span, ...]] = []
    heading: Span | None = None
    lead: Span | None = None
    run = before = None
    for span in spans:
        first = text[span.start]
        if _HEADING.match(text, span.start):
            line = text.find("\n", span.start, span.end)
            own = Span(span.start, span.end if line < 0 else line)
            found.append(())
            # What follows the heading's line in its sentence may lead a list.
            heading, lead, run, before = own, None, None, span if line >= 0 else None
            continue
        kind = "row" if first == "|" else "item" if _ITEM.match(text, span.start) else None
        if kind is not None and kind != run:
            lead, run = (span if kind == "row" else before), kind
        elif kind is None and (run != "item" or _is_apart(text, before, span)):
            lead = run = None
        found.append(tuple(s for s in (heading, lead) if s is not None and s != span))
        before = span
    return found


def _is_apart(text: str, before: Span | None, span: Span) -> bool:
    return before is None or text.count("\n", before.end, span.start) > 1
