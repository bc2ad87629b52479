"""What a wrong name was meant to be, for messages to those who wrote it."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

_MOST_NAMED = 20


def nearest(word: str, known: Iterable[str]) -> str:
    """A sentence that begins with a blank: the nearest known word, or else the first of them.

    It is empty where no word is known.
    """
    words = list(known)
    found = difflib.get_close_matches(word, words, n=1, cutoff=0.5)
    if found:
        return f" Did you mean {found[0]!r}?"
    more = len(words) - _MOST_NAMED
    rest = f" and {more} more" if more > 0 else ""
    return f" Known: {', '.join(words[:_MOST_NAMED])}{rest}." if words else ""
