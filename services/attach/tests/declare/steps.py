"""The steps that a pattern takes in a text. `re` counts none; its time depends on the machine."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import cache
from itertools import islice
from re import _constants as op  # type: ignore[attr-defined]
from re import _parser  # type: ignore[attr-defined]
from typing import Any

ASCII = tuple(map(chr, range(128)))
CATEGORIES = {op.CATEGORY_DIGIT: r"\d", op.CATEGORY_WORD: r"\w", op.CATEGORY_SPACE: r"\s"}
CHARACTER = (op.LITERAL, op.IN)
Nodes = Sequence[tuple[Any, Any]]


def parsed(pattern: re.Pattern[str]) -> Any:
    """The parts of a pattern, as `re` compiles them."""
    return _parser.parse(pattern.pattern, pattern.flags)


@cache
def characters(items: tuple[tuple[Any, Any], ...], ignore_case: bool) -> frozenset[str]:
    """The characters of ASCII that a class takes."""
    found: set[str] = set()
    for kind, value in items:
        if kind is op.LITERAL:
            found.add(chr(value))
        elif kind is op.RANGE:
            found.update(ASCII[value[0] : value[1] + 1])
        elif kind is op.CATEGORY:
            found.update(char for char in ASCII if re.match(CATEGORIES[value], char, re.ASCII))
    if ignore_case:
        found.update([char.swapcase() for char in found])
    return frozenset(set(ASCII) - found if items[0][0] is op.NEGATE else found)


class Walk:
    """Finds all matches of a pattern in a text of ASCII as `re` does: by trying in order, and going
    back. `steps` are the characters that it looked at, and the places to which it went back."""

    def __init__(self, pattern: re.Pattern[str], text: str) -> None:
        self.text = text
        self.steps = 0
        self._nodes = tuple(parsed(pattern))
        self._ignore_case = bool(pattern.flags & re.IGNORECASE)

    def spans(self) -> Iterator[tuple[int, int]]:
        """The beginning and the end of each match."""
        at = 0
        while at < len(self.text):
            end = next(self._ends(self._nodes, at), None)
            if end is not None:
                yield at, end
            at = end or at + 1

    def _ends(self, nodes: Nodes, at: int) -> Iterator[int]:
        """Where these parts may end that begin here, the preferred place first."""
        if not nodes:
            yield at
            return
        for end in self._ends_of(*nodes[0], at):
            yield from self._ends(nodes[1:], end)

    def _ends_of(self, kind: Any, value: Any, at: int) -> Iterator[int]:
        if kind in CHARACTER:
            if self._takes(kind, value, at):
                yield at + 1
        elif kind in (op.MAX_REPEAT, op.POSSESSIVE_REPEAT):
            low, high, body = value
            ends = self._repeated(tuple(body), low, high, at)
            yield from ends if kind is op.MAX_REPEAT else islice(ends, 1)
        elif kind is op.BRANCH:
            for one in value[1]:
                yield from self._ends(tuple(one), at)
        elif kind is op.SUBPATTERN:
            yield from self._ends(tuple(value[-1]), at)
        elif kind in (op.ASSERT, op.ASSERT_NOT):
            direction, body = value
            start = at if direction > 0 else at - body.getwidth()[0]
            holds = start >= 0 and next(self._ends(tuple(body), start), None) is not None
            if holds == (kind is op.ASSERT):
                yield at
        elif (kind, value) == (op.AT, op.AT_BOUNDARY):
            word = (op.IN, [(op.CATEGORY, op.CATEGORY_WORD)])
            if self._takes(*word, at - 1) != self._takes(*word, at):
                yield at
        else:
            raise ValueError(f"{kind} is not counted yet. Add it here.")

    def _repeated(self, body: Nodes, low: int, high: int, at: int) -> Iterator[int]:
        if len(body) == 1 and body[0][0] in CHARACTER:
            most = at
            while most < at + high and self._takes(*body[0], most):
                most += 1
            for end in range(most, at + low - 1, -1):
                self.steps += 1
                yield end
            return
        if high:
            for end in self._ends(body, at):
                yield from self._repeated(body, max(low - 1, 0), high - 1, end)
        if not low:
            yield at

    def _takes(self, kind: Any, value: Any, at: int) -> bool:
        self.steps += 1
        items = tuple(value) if kind is op.IN else ((kind, value),)
        inside = 0 <= at < len(self.text)
        return inside and self.text[at] in characters(items, self._ignore_case)
