"""What the tools of the toolset web and those who read their answers have in common."""

from __future__ import annotations

import re
import secrets

MAX_RESULTS = 10
"""Results of web_search."""
LATER_STATUS = re.compile(r"timeout|unreachable|dns|http_429|http_5\d\d")
"""Statuses of pages that may be readable later."""
START_FRAGMENT = "searchbus-start="
_MARKED = re.compile(r"<(untrusted_text_\w+)>\n(.*)\n</\1>", re.DOTALL)


def url_from(url: str, start: int) -> str:
    """The URL that stands for a page's text from character `start` on."""
    return f"{url}#{START_FRAGMENT}{start}"


def marked(text: str, mark: str | None = None) -> str:
    """A text between marks of untrusted text: those of the text that it is from, or new ones that
    no text contains."""
    mark = mark or f"untrusted_text_{secrets.token_hex(4)}"
    return f"<{mark}>\n{text}\n</{mark}>"


def unmarked(text: str) -> tuple[str | None, str]:
    """The mark of a text and what stands between its marks; None and the text without any."""
    found = _MARKED.match(text)
    return (found[1], found[2]) if found else (None, text)
