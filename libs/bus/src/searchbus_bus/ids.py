"""Random ids: of requests, and of the reply subjects that nobody may guess."""

from __future__ import annotations

import os

__all__ = ["RandomIds"]


class RandomIds:
    """128 random bits as hex; random bytes are fetched for many ids at once."""

    _BYTES = 16
    _AT_ONCE = 256

    def __init__(self) -> None:
        self._pool: list[str] = []

    def next(self) -> str:
        """A new id of 32 hex digits."""
        if not self._pool:
            digits = os.urandom(self._BYTES * self._AT_ONCE).hex()
            size = 2 * self._BYTES
            self._pool = [digits[i : i + size] for i in range(0, len(digits), size)]
        return self._pool.pop()
