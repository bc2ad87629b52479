"""The headings and paragraphs of a page's text, by which parts of it are asked for.

Paragraphs are counted from 1; a blank line stands between two. A heading is a line of Markdown.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from typing import NamedTuple

from searchbus_contracts import ErrorCode, Fault

MAX_CHARS = 50_000
"""Characters of one page in an answer."""
_BLANK = re.compile(r"\n[^\S\n]*\n\s*")
_HEADING = re.compile(r"(#{1,6})\s+(\S.*)")
_MAX_HEADING_CHARS = 200
RANGE = r"^[0-9]{1,6}(-([0-9]{1,6})?)?$"
"""The form of a range of paragraphs: `4`, `3-7`, `12-`."""


class Heading(NamedTuple):
    """A heading, its level from 1 to 6, and the number of its paragraph."""

    level: int
    text: str
    paragraph: int


class Outline:
    """Where the parts of a text are."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._spans: list[tuple[int, int]] = []
        start = 0
        for blank in (*_BLANK.finditer(text), None):
            end = len(text) if blank is None else blank.start()
            if text[start:end].strip():
                self._spans.append((start, end))
            start = end if blank is None else blank.end()
        self.headings = [
            Heading(len(found[1]), found[2].strip()[:_MAX_HEADING_CHARS], number)
            for number, (start, _) in enumerate(self._spans, 1)
            if (found := _HEADING.match(text, start)) is not None
        ]

    @property
    def paragraphs(self) -> int:
        """How many there are."""
        return len(self._spans)

    def number_at(self, offset: int) -> int:
        """The number of the paragraph at an offset, or of the last one before it; 0 without any."""
        return bisect_right(self._spans, offset, key=lambda span: span[0])

    def section(self, name: str) -> tuple[int, int] | None:
        """The offsets from a heading to the next one of its level; None where it is not there.

        Case does not matter; a heading that only contains the name is taken where none equals it.
        """
        wanted = " ".join(name.lower().split())
        of_text = [(heading, " ".join(heading.text.lower().split())) for heading in self.headings]
        chosen = next((h for h, text in of_text if text == wanted), None) or next(
            (h for h, text in of_text if wanted in text), None
        )
        if chosen is None:
            return None
        after = (
            h.paragraph
            for h in self.headings
            if h.paragraph > chosen.paragraph and h.level <= chosen.level
        )
        return self.range(chosen.paragraph, next(after, self.paragraphs + 1) - 1)

    def range(self, first: int, last: int) -> tuple[int, int] | None:
        """The offsets of paragraphs; None where the first one is not there."""
        if not 1 <= first <= self.paragraphs:
            return None
        return self._spans[first - 1][0], self._spans[min(last, self.paragraphs) - 1][1]


def read_range(text: str) -> tuple[int, int]:
    """The first and the last paragraph of `4`, `3-7` or `12-`; raises Fault(invalid_argument)."""
    first, dash, last = text.partition("-")
    ends = (int(first), int(last) if last else 10**6 if dash else int(first))
    if not 1 <= ends[0] <= ends[1]:
        raise Fault(
            ErrorCode.INVALID_ARGUMENT,
            "paragraphs is not a range. Give it like 4, 3-7 or 12-, counted from 1.",
        )
    return ends


def part_of(
    text: str, start: int, *, end: int | None = None, max_chars: int = MAX_CHARS
) -> tuple[int, int]:
    """The part of a text from `start` to `end`, without the white space around it, as offsets.

    A longer part is cut, at the end of a paragraph where one is near.
    """
    end = len(text) if end is None else end
    if end - start > max_chars:
        paragraph = text.rfind("\n\n", start + int(max_chars * 0.8), start + max_chars)
        end = paragraph if paragraph > 0 else start + max_chars
    part = text[start:end]
    return start + len(part) - len(part.lstrip()), start + len(part.rstrip())
