"""Arguments that several tools have: queries, budgets of tokens, parts of texts."""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass

from .errors import ErrorCode, Fault
from .visible import visible

MIN_TOKENS = 100
MAX_TOKENS = 1_000_000
"""Bounds of what a caller may name as `max_tokens` of an answer."""


def check_query(
    text: str, *, max_chars: int, field: str = "query", keep_lines: bool = False
) -> str:
    """The query with every run of white space replaced by one space, and composed letters (NFC).

    Args:
        keep_lines: keep the lines apart; those without a character are left out.

    Raises:
        Fault: invalid_query, which names the field; the text as it is given has more than
            `max_chars`, or none that is visible.
    """
    if len(text) > max_chars:
        raise Fault(
            ErrorCode.INVALID_QUERY,
            f"{field} has {len(text)} characters. Shorten it to at most {max_chars}.",
        )
    if not visible(text).strip():
        raise Fault(ErrorCode.INVALID_QUERY, f"{field} is empty. Say what to search for.")
    lines = (" ".join(line.split()) for line in (text.splitlines() if keep_lines else [text]))
    query = "\n".join(filter(None, lines))
    # It makes a few letters longer, and the service that is asked counts again.
    composed = unicodedata.normalize("NFC", query)
    return composed if len(composed) <= max_chars else query


def too_small(max_tokens: int, least: int) -> Fault:
    """The failure for a budget that an answer of `least` tokens exceeds without any text."""
    return Fault(
        ErrorCode.INVALID_ARGUMENT,
        f"max_tokens is {max_tokens}, but the answer takes {least} almost without text. Raise it.",
    )


_PART = re.compile(r"(.*)#(\d{1,9})-(\d{1,9})?", re.ASCII | re.DOTALL)


@dataclass(frozen=True, slots=True)
class Part:
    """Characters `start` to `end` of the text behind an id; `end` None is the text's end.

    Part.of("doc:fomc:17#1200-1900")     # Part(id="doc:fomc:17", start=1200, end=1900)
    Part.of("doc:fomc:17#1200-")         # to the end of the text
    """

    id: str
    start: int = 0
    end: int | None = None

    @classmethod
    def of(cls, text: str, field: str = "id") -> Part:
        """Read an id, with or without a part; raises Fault(invalid_argument), which names the
        argument `field`, for an empty part."""
        match = _PART.fullmatch(text.strip())
        if match is None:
            return cls(text.strip())
        start, end = int(match[2]), int(match[3]) if match[3] else None
        if end is not None and end <= start:
            text = f"the part {start}-{end} is empty. Give an end that is larger than its start."
            raise Fault(ErrorCode.INVALID_ARGUMENT, f"{field}: {text}")
        return cls(match[1], start, end)

    def __str__(self) -> str:
        return f"{self.id}#{self.start}-{'' if self.end is None else self.end}"
