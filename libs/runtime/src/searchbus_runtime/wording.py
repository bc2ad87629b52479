"""Text for people: without control characters of others, what a wrong name was meant to be, errors.

A title with an escape sequence could otherwise clear the screen, hide lines or write the clipboard.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

# C0 and C1 without tab and line feed, DEL, line separators, and what reverses the order of text.
_CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")
_CREDENTIALS = re.compile(r'://[^/\s"]+@')


def printable(text: str, *, one_line: bool = False) -> str:
    r"""The text with control characters as escapes, e.g. `\x1b`; line feeds too if `one_line`."""
    shown = _CONTROLS.sub(_escape, text)
    return shown.replace("\n", "\\n") if one_line else shown


def _escape(found: re.Match[str]) -> str:
    code = ord(found[0])
    return f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}"


def without_credentials(text: str) -> str:
    """A text whose URLs have no user, password or token."""
    return _CREDENTIALS.sub("://…@", text)


class CommandError(RuntimeError):
    """Ends a command with its faults for the user, a line each; the exit code is 2 for wrong
    arguments or settings, 1 for anything else."""

    def __init__(self, *faults: str, code: int = 1) -> None:
        super().__init__("\n".join(faults))
        self.faults = faults
        self.code = code


_MOST_NAMED = 20


def nearest(word: str, known: Iterable[str]) -> str:
    """A sentence that begins with a blank: the nearest known word, else the first, if any."""
    # Imported here: most commands end without it.
    from difflib import get_close_matches

    words = list(known)
    found = get_close_matches(word, words, n=1, cutoff=0.5)
    if found:
        return f" Did you mean {found[0]!r}?"
    more = len(words) - _MOST_NAMED
    rest = f" and {more} more" if more > 0 else ""
    return f" Known: {', '.join(words[:_MOST_NAMED])}{rest}." if words else ""
