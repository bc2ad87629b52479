"""Where a quotation stands in a text; where it does not, the nearest place and how that differs.

The nearest place is found by seed and extend, as sequences are compared: pieces of the quotation
are looked up all over the text, and the places where most of them lie together are aligned
(alignment.py). Time and memory grow with the length of the text, whatever the quotation.
"""

from __future__ import annotations

import asyncio
import heapq
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from .alignment import edits, nearest_span

MAX_QUOTE_CHARS = 2_000
_BLOCK_CHARS = 65_536
_SEED_CHARS = 8
"""Half of it where no spaces part the words."""
_LONG_WORD_CHARS = 16
_MAX_WORD_CHARS = 40
_MAX_SEEDS = 48
_MAX_PLACES_OF_SEED = 24
"""In one block."""
_PLACES = 6
"""That are aligned."""
_LEAST_SIMILARITY = 0.4
MAX_DIFFERENCES = 20
_SAME = {
    **dict.fromkeys("\u2010\u2011\u2012\u2013\u2014\u2015\u2212\ufe58\ufe63\uff0d", "-"),
    **dict.fromkeys("`\u00b4\u02bc\u2018\u2019\u201a\u201b\u2032", "'"),
    **dict.fromkeys("\u00ab\u00bb\u201c\u201d\u201e\u201f\u2033", '"'),
    **dict.fromkeys("\u00ad\u200b\u200c\u200d\u2060\ufeff\ufe0e\ufe0f", ""),
    "\u0130": "i",
}
_FOLD = str.maketrans(_SAME)
_SPACES = re.compile(r"\s+")
_WIDTHLESS = "".join(char for char, same in _SAME.items() if not same)
_UNFOLDED = re.compile(rf"[{_WIDTHLESS}]*\s[\s{_WIDTHLESS}]*|[{_WIDTHLESS}]+")


@dataclass(frozen=True, slots=True)
class Difference:
    """What the quotation says and what stands in the text; one of them may be empty."""

    quote: str
    text: str


@dataclass(frozen=True, slots=True)
class Place:
    """`text[start:end]`, in characters; both 0 where the match is "none". Similarity is 1 for an
    equivalent text, 0 for one that shares nothing."""

    match: Literal["exact", "equivalent", "nearest", "none"]
    start: int = 0
    end: int = 0
    similarity: float = 0.0
    differences: tuple[Difference, ...] = ()


def find_quote(text: str, quote: str) -> Place:
    """The first place of a quotation, or the nearest one.

    Raises:
        ValueError: the quotation has no visible character, or more than MAX_QUOTE_CHARS.
    """
    quote = quote.strip()
    folded = _Folded(quote)
    if not folded.text:
        raise ValueError("quote is empty")
    if len(quote) > MAX_QUOTE_CHARS:
        raise ValueError(
            f"quote has {len(quote)} characters; at most {MAX_QUOTE_CHARS} are compared"
        )
    for start, end in _blocks(len(text), len(quote)):
        found = text.find(quote, start, end)
        if found >= 0:
            return Place("exact", found, found + len(quote), 1.0)
    return _nearest(text, quote, folded)


def _nearest(text: str, quote: str, folded: _Folded) -> Place:
    overlap = 2 * len(quote) + 1_000
    seeds = _seeds(folded.text)
    places: list[tuple[int, int, int]] = []
    for start, end in _blocks(len(text), overlap):
        block = _Folded(text[start:end])
        found = block.text.find(folded.text)
        if found >= 0:
            first, behind = block.raw(found, found + len(folded.text))
            return Place("equivalent", start + first, start + behind, 1.0)
        near = ((votes, -start, -at) for at, votes in _votes(block.text, seeds, len(folded.text)))
        places = heapq.nlargest(_PLACES, [*places, *near])
    best: tuple[int, int, int, _Folded, int] | None = None
    for _, minus_start, minus_at in places:
        block = _Folded(text[-minus_start : -minus_start + _BLOCK_CHARS + overlap])
        lowest = max(0, -minus_at - len(folded.text) // 4 - _SEED_CHARS)
        window = block.text[lowest : -minus_at + 3 * len(folded.text) + 4 * _SEED_CHARS]
        distance, first, behind = nearest_span(folded.text, window)
        if best is None or (distance, -minus_start) < (best[0], best[4]):
            best = (distance, lowest + first, lowest + behind, block, -minus_start)
    return Place("none") if best is None else _place(quote, folded, *best)


def _place(
    quote: str, folded: _Folded, distance: int, first: int, behind: int, block: _Folded, start: int
) -> Place:
    text = block.text
    for _ in range(_MAX_WORD_CHARS):
        first -= 0 < first < len(text) and text[first - 1].isalnum() and text[first].isalnum()
        behind += 0 < behind < len(text) and text[behind - 1].isalnum() and text[behind].isalnum()
    similarity = 1 - distance / max(len(folded.text), behind - first)
    if similarity < _LEAST_SIMILARITY:
        return Place("none")
    differences = []
    for edit in edits(folded.text, text[first:behind])[:MAX_DIFFERENCES]:
        said = slice(*folded.raw(edit.pattern_start, edit.pattern_end))
        stands = slice(*block.raw(first + edit.text_start, first + edit.text_end))
        differences.append(Difference(quote[said], block.original[stands]))
    raw_first, raw_behind = block.raw(first, behind)
    return Place(
        "nearest", start + raw_first, start + raw_behind, round(similarity, 4), tuple(differences)
    )


def _blocks(length: int, overlap: int) -> Iterator[tuple[int, int]]:
    for start in range(0, max(1, length), _BLOCK_CHARS):
        yield start, min(length, start + _BLOCK_CHARS + overlap)


def _seeds(quote: str) -> list[tuple[int, str]]:
    """Pieces of the quotation with their offsets: at the beginnings of words, and even ones."""
    starts = {match.start() for match in re.finditer(r"\S+", quote)}
    spaced = len(starts) > len(quote) / _LONG_WORD_CHARS
    size = min(_SEED_CHARS if spaced else _SEED_CHARS // 2, max(2, len(quote) // 3))
    starts |= set(range(0, len(quote), size))
    usable = sorted(start for start in starts if start + size <= len(quote)) or [0]
    step = max(1.0, len(usable) / _MAX_SEEDS)
    chosen = [usable[int(index * step)] for index in range(int(len(usable) / step))]
    return [(start, quote[start : start + size]) for start in chosen]


def _votes(block: str, seeds: list[tuple[int, str]], length: int) -> list[tuple[int, int]]:
    """(where the quotation would begin, number of its seeds near there) for the best places."""
    width = max(16, length // 2)
    voters: dict[int, int] = {}
    for number, (offset, seed) in enumerate(seeds):
        position = block.find(seed)
        for _ in range(_MAX_PLACES_OF_SEED):
            if position < 0:
                break
            bucket = (position - offset + length) // width
            voters[bucket] = voters.get(bucket, 0) | 1 << number
            position = block.find(seed, position + 1)
    # A place may lie across two buckets.
    votes = (
        ((mine | voters.get(bucket + 1, 0)).bit_count(), -bucket) for bucket, mine in voters.items()
    )
    return [
        (max(0, -minus * width - length), count) for count, minus in heapq.nlargest(_PLACES, votes)
    ]


class _Folded:
    """A text without what makes no difference, and where its characters were."""

    def __init__(self, original: str) -> None:
        self.original = original
        self.text = fold(original)
        self._starts: list[int] | None = None

    def raw(self, start: int, end: int) -> tuple[int, int]:
        """Offsets in the original of a part of the folded text."""
        if self._starts is None:
            self._starts = _starts(self.original)
        if start >= end:
            return self._starts[start], self._starts[start]
        return self._starts[start], self._starts[end - 1] + 1


def fold(text: str) -> str:
    """Small letters, one space for white space, plain dashes and quotation marks."""
    return _SPACES.sub(" ", text.translate(_FOLD).lower()).strip()


def _starts(text: str) -> list[int]:
    """For each character of the folded text its offset in the text; then the text's end."""
    starts: list[int] = []
    position = 0
    while position < len(text):
        match = _UNFOLDED.match(text, position)
        if match is None:
            starts.append(position)
            position += 1
            continue
        visible = starts and match.end() < len(text)
        if visible and _SPACES.search(match[0]):
            starts.append(position)
        position = match.end()
    starts.append(len(text))
    return starts


_AT_ONCE = 2
"""The longest text takes a thread two seconds."""


class Comparisons:
    """`find_quote` beside the event loop, a few at a time; further ones wait for their turn."""

    def __init__(self) -> None:
        self._slots = asyncio.Semaphore(_AT_ONCE)

    async def find(self, text: str, quote: str) -> Place:
        """As `find_quote`, which raises ValueError for a quotation that it does not compare."""
        async with self._slots:
            return await asyncio.to_thread(find_quote, text, quote)
