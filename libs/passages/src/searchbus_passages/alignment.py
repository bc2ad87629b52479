"""Edit distance by bits (Myers 1999, Hyyrö 2003): a column of the matrix is two large integers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Edit:
    """`pattern[pattern_start:pattern_end]` stands for `text[text_start:text_end]`."""

    pattern_start: int
    pattern_end: int
    text_start: int
    text_end: int


def nearest_span(pattern: str, text: str) -> tuple[int, int, int]:
    """(distance, start, end) of the part of a text with the fewest edits from a pattern (not
    empty); of equal ones the first."""
    distance, end = len(pattern), 0
    for position, (score, _, _) in enumerate(_columns(pattern, text, anchored=False), 1):
        if score < distance:
            distance, end = score, position
    length, least = 0, len(pattern)
    backwards = _columns(pattern[::-1], text[:end][::-1], anchored=True)
    for position, (score, _, _) in enumerate(backwards, 1):
        if score < least:
            least, length = score, position
        if least <= distance:
            break
    return distance, end - length, end


def edits(pattern: str, text: str) -> list[Edit]:
    """The fewest edits that make a pattern the text, each widened to whole words, in order."""
    return _in_words(pattern, text, _path(pattern, text))


def _columns(pattern: str, text: str, *, anchored: bool) -> Iterator[tuple[int, int, int]]:
    """For each character of the text: the distance, and the column's differences as bits.
    `anchored`: the pattern begins where the text does."""
    places: dict[str, int] = {}
    for position, char in enumerate(pattern):
        places[char] = places.get(char, 0) | 1 << position
    every = (1 << len(pattern)) - 1
    last = 1 << len(pattern) - 1
    more, less, score = every, 0, len(pattern)
    for char in text:
        equal = places.get(char, 0)
        diagonal = (((equal & more) + more) ^ more) | equal | less
        right_more = less | ~(diagonal | more) & every
        right_less = more & diagonal
        if right_more & last:
            score += 1
        elif right_less & last:
            score -= 1
        right_more = (right_more << 1 | anchored) & every
        right_less = right_less << 1 & every
        equal |= less
        more = right_less | ~(equal | right_more) & every
        less = right_more & equal
        yield score, more, less


def _path(pattern: str, text: str) -> list[tuple[int, int, bool]]:
    """(offset in the pattern, offset in the text, whether they are equal) for each step."""
    every = (1 << len(pattern)) - 1
    mores, lesses = [every], [0]
    for _, more, less in _columns(pattern, text, anchored=True):
        mores.append(more)
        lesses.append(less)
    steps: list[tuple[int, int, bool]] = []
    row, column = len(pattern), len(text)
    while row and column:
        if pattern[row - 1] == text[column - 1]:
            row, column = row - 1, column - 1
            steps.append((row, column, True))
        elif mores[column] >> row - 1 & 1:
            row -= 1
            steps.append((row, column, False))
        elif lesses[column - 1] >> row - 1 & 1:
            column -= 1
            steps.append((row, column, False))
        else:
            row, column = row - 1, column - 1
            steps.append((row, column, False))
    steps += [(rest, column, False) for rest in reversed(range(row))]
    steps += [(0, rest, False) for rest in reversed(range(column))]
    return steps[::-1]


def _in_words(pattern: str, text: str, path: Sequence[tuple[int, int, bool]]) -> list[Edit]:
    """Edits between equal characters that are no letters; neighbours with one such between them are
    one edit."""
    found: list[Edit] = []
    begin: tuple[int, int] = (0, 0)
    differs = False

    def close(pattern_end: int, text_end: int) -> None:
        if not differs:
            return
        last = found[-1] if found else None
        if last and begin[0] <= last.pattern_end + 1 and begin[1] <= last.text_end + 1:
            found[-1] = Edit(last.pattern_start, pattern_end, last.text_start, text_end)
        else:
            found.append(Edit(begin[0], pattern_end, begin[1], text_end))

    for row, column, equal in path:
        if equal and not pattern[row].isalnum():
            close(row, column)
            begin, differs = (row + 1, column + 1), False
        elif not equal:
            differs = True
    close(len(pattern), len(text))
    return found
