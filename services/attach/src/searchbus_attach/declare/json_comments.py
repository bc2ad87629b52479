"""JSON as VS Code writes it: with comments, and with commas after a last item."""

from __future__ import annotations

import re

__all__ = ["without_comments"]

_TOKEN = re.compile(
    r'"(?:[^"\\]|\\.)*"'  # a text: nothing in it is a comment
    r"|//[^\r\n]*|/\*.*?\*/"
    r'|\s+|[^\s"/,:{}\[\]]+|.',
    re.DOTALL,
)
_NOT_AFTER = frozenset({"", ",", ":", "[", "{"})


def without_comments(text: str) -> str:
    """The text as JSON, if it is nothing worse; each character stays in its line and column, so
    that an error of the parser names the right place.
    """
    parts: list[str] = []
    comma = 0
    before, last = "", ""
    for found in _TOKEN.finditer(text):
        part = found[0]
        if part.startswith(("//", "/*")):
            parts.append(re.sub(r"[^\r\n]", " ", part))
            continue
        parts.append(part)
        if part.isspace():
            continue
        if part in ("}", "]") and last == "," and before not in _NOT_AFTER:
            parts[comma] = " "
        if part == ",":
            comma = len(parts) - 1
        before, last = last, part
    return "".join(parts)
