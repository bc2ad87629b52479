"""Text of a server's definitions as data: no control or invisible characters, limited length."""

from __future__ import annotations

import unicodedata

__all__ = ["clean", "clean_line", "hides_text"]

_KEPT = frozenset("\n\t")
_TAKEN_OUT = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
"""Controls, formatting (directions, zero width, tags), surrogates, private use, unassigned."""
_VARIATIONS = frozenset({*map(chr, range(0xFE00, 0xFE10)), *map(chr, range(0xE0100, 0xE01F0))})
"""Invisible too, although they are marks: whole texts can be hidden in them."""
_HIDING = frozenset({"Cf", "Co"})
_JOINERS = frozenset("\u200c\u200d")
"""Part of words and of emoji."""
_LEAST_HIDDEN_CHARS = 4
_FILLERS = frozenset("\u115f\u1160\u3164\uffa0\u2800")
"""Letters and symbols without a shape."""


def clean(text: str, max_chars: int) -> str:
    """The text that a person sees, cut after `max_chars` characters with an ellipsis."""
    # Twice the limit is looked at: a text of megabytes costs no more than a page.
    kept = "".join(filter(_is_visible, text[: 2 * max_chars + 1])).strip()
    return kept if len(kept) <= max_chars else f"{kept[: max_chars - 1]}…"


def clean_line(text: str, max_chars: int) -> str:
    """The same in one line."""
    return " ".join(clean(text, max_chars).split())


def hides_text(text: str) -> bool:
    """Whether a text that must stay as it is has several characters that nobody sees, as hidden
    instructions have.
    """
    if text.isascii():
        return False
    hidden = (
        unicodedata.category(char) in _HIDING or char >= "\U000e0100"
        for char in text
        if char not in _JOINERS
    )
    return sum(hidden) >= _LEAST_HIDDEN_CHARS


def _is_visible(char: str) -> bool:
    if char in _KEPT:
        return True
    if char in _VARIATIONS or char in _FILLERS:
        return False
    return unicodedata.category(char) not in _TAKEN_OUT
