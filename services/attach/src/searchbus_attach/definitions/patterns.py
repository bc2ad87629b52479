"""Patterns of schemas that are cheap to compile; the others a server checks itself.

Compiling one that repeats a large class of characters takes 50 ms and megabytes, and a server may
send thousands, which every reader of the list would compile.
"""

from __future__ import annotations

from functools import lru_cache

import jsonschema_rs

__all__ = ["MAX_PATTERNS", "Patterns"]

MAX_PATTERNS = 64
"""Of one schema."""
_MAX_CHARS = 1_000
"""A longer one makes the schema invalid (contracts/schemas.py)."""
_SHORT_CHARS = 40
_LIMITED = jsonschema_rs.FancyRegexOptions(size_limit=256 * 1024)
"""Of the compiled pattern, in bytes; it takes a millisecond at most."""


class Patterns:
    """Those of one schema."""

    def __init__(self) -> None:
        self._left = MAX_PATTERNS

    def keep(self, pattern: object) -> bool:
        """Whether this one stays. What is not a pattern stays as well, for the meta-schema."""
        if not isinstance(pattern, str) or len(pattern) > _MAX_CHARS:
            return True
        self._left -= 1
        return self._left >= 0 and _is_cheap(pattern)


@lru_cache(maxsize=4096)
def _is_cheap(pattern: str) -> bool:
    if len(pattern) <= _SHORT_CHARS and "{" not in pattern:
        return True
    try:
        jsonschema_rs.Draft202012Validator(
            {"pattern": pattern}, pattern_options=_LIMITED, offline=True
        )
    except ValueError:
        return False
    return True
