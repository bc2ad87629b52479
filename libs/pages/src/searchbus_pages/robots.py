"""robots.txt (RFC 9309)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .html import TooComplexError

if TYPE_CHECKING:
    from protego import Protego

MAX_PAIRS = 1_000_000
"""Each of many groups may have each of many rules: so many take 70 MB and a second."""


def read_robots(body: bytes) -> Protego:
    """The rules of a robots.txt; what is no rule is ignored. Raises TooComplexError for too
    many."""
    from protego import Protego  # a crawl and a sync need it, no search does

    text = body.decode("utf-8-sig", "replace")
    if text.lower().count("agent") * len(text.splitlines()) > MAX_PAIRS:
        raise TooComplexError("it has too many rules")
    return Protego.parse(text)
