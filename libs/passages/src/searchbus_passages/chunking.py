"""Cuts a document into passages at its sections and sentences; every visible character is in one.

The target length is in characters, the limit in tokens: prose gives passages of even length, and
text with more tokens for its length (tables, code, other languages) gives shorter ones.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from typing import NamedTuple

from .headings import find_code_headings, find_headings
from .sentences import trimmed
from .tokens import Ruler, model_tokens

TARGET_CHARS = 1000
"""About 175 tokens of English prose."""
MAX_TOKENS = 230
"""Estimated. With title, date and section before it about 256; a longer one costs more a token."""
_LEAST_CHARS = 250
_MOST_CHARS = 1600
_PART_TOKENS = 128
"""Parts of a sentence or a table that is longer than a passage."""

_ABBREVIATIONS = frozenset(
    "approx mr mrs ms messrs dr prof st no vs etc inc co corp jr sr u.s u.k e.g i.e cf fig eq al "
    "gov sen rep gen jan feb mar apr jun jul aug sep sept oct nov dec p.m a.m".split()
)
_CAPITAL = r"[\"'“‘(\[]?[A-Z0-9\u00c0-\u00de\u0386-\u03ab\u0400-\u042f]"
_BOUNDARY = re.compile(
    rf"([.!?][\"'”’)\]]*\d{{0,2}}(?=\s+{_CAPITAL})|[。！？]+[」』”’）]*)\s*|\n\s*\n|\n(?=[-*•] )"
)
"""The end of a sentence, in Latin, Greek, Cyrillic and CJK scripts."""
_WORD_BEFORE = re.compile(r"([\w.]+)$")


class Piece(NamedTuple):
    """`text[start:end]`, in characters, and the heading above it."""

    start: int
    end: int
    section: str | None


def cut(text: str, *, markdown: bool = False, code_suffix: str | None = None) -> list[Piece]:
    """Cut a text, of code by the suffix of its file; one without a visible character gives no
    chunks."""
    if code_suffix is not None:
        headings = find_code_headings(text, code_suffix)
    else:
        headings = find_headings(text, markdown=markdown)
    tokens = Ruler(text, model_tokens)
    chunks: list[Piece] = []
    edges: list[tuple[str | None, int, int]] = []
    if not headings or headings[0].start > 0:
        edges.append((None, 0, headings[0].start if headings else len(text)))
    for position, heading in enumerate(headings):
        end = headings[position + 1].start if position + 1 < len(headings) else len(text)
        edges.append((heading.title, heading.start, end))
    for section, start, end in edges:
        chunks.extend(_pack(text, start, end, section, tokens))
    return chunks


def _pack(text: str, start: int, end: int, section: str | None, tokens: Ruler) -> Iterator[Piece]:
    spans = list(_sentences(text, start, end, tokens))
    total = sum(e - s for s, e in spans)
    # Passages of equal length, instead of full ones with a short rest.
    count = max(1, round(total / TARGET_CHARS), math.ceil(tokens.between(start, end) / MAX_TOKENS))
    goal = min(_MOST_CHARS, max(_LEAST_CHARS, total / count))
    current: tuple[int, int] | None = None
    for span in spans:
        if current is not None and _is_full(current, span, goal, tokens):
            yield Piece(*current, section)
            current = None
        current = span if current is None else (current[0], span[1])
    if current is not None:
        yield Piece(*current, section)


def _is_full(
    current: tuple[int, int], following: tuple[int, int], goal: float, tokens: Ruler
) -> bool:
    """Whether a chunk is nearer to its goal without the sentence that follows."""
    without, with_it = current[1] - current[0], following[1] - current[0]
    if with_it > _MOST_CHARS or tokens.between(current[0], following[1]) > MAX_TOKENS:
        return True
    return without >= goal or with_it - goal > goal - without


def _sentences(text: str, start: int, end: int, tokens: Ruler) -> Iterator[tuple[int, int]]:
    """Spans of sentences without the white space around them; a very long one is split."""
    position = start
    for match in _BOUNDARY.finditer(text, start, end):
        stop = match.end(1) if match[1] else match.start()
        if match[1] and _is_abbreviation(text, match.start(), start):
            continue
        yield from _trimmed(text, position, stop, tokens)
        position = match.end()
    yield from _trimmed(text, position, end, tokens)


def _trimmed(text: str, start: int, end: int, tokens: Ruler) -> Iterator[tuple[int, int]]:
    start, end = trimmed(text, start, end)
    while end - start > _MOST_CHARS or tokens.between(start, end) > MAX_TOKENS:
        cut_at = _end_of_part(text, start, min(end, start + TARGET_CHARS), tokens)
        yield start, cut_at
        start, end = trimmed(text, cut_at, end)
    if start < end:
        yield start, end


def _end_of_part(text: str, start: int, end: int, tokens: Ruler) -> int:
    """Where to split a sentence that is too long: at a line's end, else at a space."""
    most_tokens = MAX_TOKENS if tokens.between(start, end) <= MAX_TOKENS else _PART_TOKENS
    end = min(end, tokens.reach(start, most_tokens))
    least = start + (end - start) // 4
    for mark in "\n ":
        cut_at = text.rfind(mark, least, end)
        if cut_at > start and text[start:cut_at].strip():
            return cut_at
    return end


def _is_abbreviation(text: str, dot: int, start: int) -> bool:
    if text[dot] != ".":
        return False
    match = _WORD_BEFORE.search(text, max(start, dot - 20), dot)
    if match is None:
        return False
    word = match[1]
    return word.lower() in _ABBREVIATIONS or (len(word) == 1 and word.isupper())
