"""robots.txt (RFC 9309)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from .html import TooComplexError

if TYPE_CHECKING:
    from protego import Protego

MAX_ROBOTS_BYTES = 500 * 1024
"""What is read of a file; RFC 9309, 2.5 asks for no more."""
MAX_PAIRS = 1_000_000
"""Each of many robots may have each of many rules: so many take 70 MB and a second."""
_ROBOT = re.compile(r"\s*(?:user-agent|useragent|user agent)[ \t]*:", re.I)
_RULE = re.compile(r"\s*(?:dis)?allow[ \t]*:", re.I)


def read_robots(body: bytes) -> Protego:
    """The rules of a robots.txt; what is no rule is ignored. Raises TooComplexError for too
    many."""
    from protego import Protego  # a crawl and a sync need it, no search does

    lines = body[:MAX_ROBOTS_BYTES].decode("utf-8-sig", "replace").splitlines()
    if len(body) >= MAX_ROBOTS_BYTES:
        del lines[-1:]  # half of a rule is another one
    if _pairs(lines) > MAX_PAIRS:
        raise TooComplexError("it has too many rules")
    return Protego.parse("\n".join(lines))


def _pairs(lines: Sequence[str]) -> int:
    """No fewer than the robots that the parser goes through for all lines of their groups."""
    robots = pairs = 0
    ruled = False
    for line in lines:
        if ruled and _ROBOT.match(line):  # only what surely begins a group
            robots, ruled = 0, False
        robots += 1 + ("*" in line) if line.lstrip()[:4].lower() == "user" else 0
        ruled = ruled or _RULE.match(line) is not None
        pairs += robots
    return pairs
