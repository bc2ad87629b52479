"""Cuts a document into passages at its sections and sentences.

    chunks = cut(text)         # [Chunk(start, end, section), …], offsets in characters

Every character lies in exactly one chunk, except white space between passages.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from searchbus_contracts.retrieval import Chunk

from .headings import find_headings

__all__ = ["TARGET_CHARS", "cut"]

TARGET_CHARS = 1000
"""About 220 tokens; with title and section it stays well under the model's 512."""
_LEAST_CHARS = 250
_MOST_CHARS = 1600

_ABBREVIATIONS = frozenset(
    "approx mr mrs ms messrs dr prof st no vs etc inc co corp jr sr u.s u.k e.g i.e cf fig eq al "
    "gov sen rep gen jan feb mar apr jun jul aug sep sept oct nov dec p.m a.m".split()
)
_BOUNDARY = re.compile(r"([.!?][\"'”’)\]]*\d{0,2})\s+(?=[\"'“‘(\[]?[A-Z0-9])|\n\s*\n|\n(?=[-*•] )")
_WORD_BEFORE = re.compile(r"([\w.]+)$")


def cut(text: str, *, markdown: bool = False, target_chars: int = TARGET_CHARS) -> list[Chunk]:
    """Cut a text; a text without a visible character gives no chunks."""
    headings = find_headings(text, markdown=markdown)
    chunks: list[Chunk] = []
    edges: list[tuple[str | None, int, int]] = []
    if not headings or headings[0].start > 0:
        edges.append((None, 0, headings[0].start if headings else len(text)))
    for position, heading in enumerate(headings):
        end = headings[position + 1].start if position + 1 < len(headings) else len(text)
        edges.append((heading.title, heading.start, end))
    for section, start, end in edges:
        chunks.extend(_pack(text, start, end, section, target_chars))
    return chunks


def _pack(text: str, start: int, end: int, section: str | None, target: int) -> Iterator[Chunk]:
    spans = list(_sentences(text, start, end))
    total = sum(e - s for s, e in spans)
    # Passages of equal length, instead of full ones with a short rest.
    count = max(1, round(total / target))
    goal = min(_MOST_CHARS, max(_LEAST_CHARS, total / count))
    current: tuple[int, int] | None = None
    for span in spans:
        if current is not None and _is_full(current, span, goal):
            yield Chunk(start=current[0], end=current[1], section=section)
            current = None
        current = span if current is None else (current[0], span[1])
    if current is not None:
        yield Chunk(start=current[0], end=current[1], section=section)


def _is_full(current: tuple[int, int], following: tuple[int, int], goal: float) -> bool:
    """Whether a chunk is nearer to its goal without the sentence that follows."""
    without, with_it = current[1] - current[0], following[1] - current[0]
    return with_it > _MOST_CHARS or without >= goal or with_it - goal > goal - without


def _sentences(text: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    """Spans of sentences without the white space around them; a very long one is split."""
    position = start
    for match in _BOUNDARY.finditer(text, start, end):
        stop = match.end(1) if match[1] else match.start()
        if match[1] and _is_abbreviation(text, match.start(), start):
            continue
        yield from _trimmed(text, position, stop)
        position = match.end()
    yield from _trimmed(text, position, end)


def _trimmed(text: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    while start < end and text[start].isspace():
        start += 1
    while end > start and text[end - 1].isspace():
        end -= 1
    while end - start > _MOST_CHARS:
        cut_at = text.rfind(" ", start + _LEAST_CHARS, start + TARGET_CHARS)
        if cut_at == -1:
            cut_at = start + TARGET_CHARS
        yield start, cut_at
        start = cut_at
        while start < end and text[start].isspace():
            start += 1
    if start < end:
        yield start, end


def _is_abbreviation(text: str, dot: int, start: int) -> bool:
    if text[dot] != ".":
        return False
    match = _WORD_BEFORE.search(text, max(start, dot - 20), dot)
    if match is None:
        return False
    word = match[1]
    return word.lower() in _ABBREVIATIONS or (len(word) == 1 and word.isupper())
