"""Text of others on a terminal: control characters are shown, never sent.

A title with an escape sequence could otherwise clear the screen, hide lines or write the clipboard.
"""

from __future__ import annotations

import re

# C0 and C1 without tab and line feed, DEL, line separators, and what reverses the order of text.
_CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")


def printable(text: str, *, one_line: bool = False) -> str:
    """The text with its control characters as escapes, e.g. `\\x1b`.

    Args:
        one_line: line feeds are shown as escapes too.
    """
    shown = _CONTROLS.sub(_escape, text)
    return shown.replace("\n", "\\n") if one_line else shown


def _escape(found: re.Match[str]) -> str:
    code = ord(found[0])
    return f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}"
