"""How long to wait before the next connection, by how the last ones ended.

A connection that is lost is replaced at once. After one that failed, and after two in a row that
were lost early, there is a pause, which doubles up to a minute.
"""

from __future__ import annotations

import random

__all__ = ["Pauses", "about"]

PAUSE_S = (1.0, 60.0)
"""The first and the longest."""
_jitter = random.Random()  # noqa: S311  (of times, no secret)


class Pauses:
    """The pauses between the connections of one server."""

    def __init__(self) -> None:
        self._pause_s = 0.0
        self._lost_early = False

    def after(self, *, was_up: bool, early: bool) -> float:
        """Seconds until the next one.

        Args:
            was_up: whether the last one could be used.
            early: whether it ended soon.
        """
        if was_up and not (early and self._lost_early):
            self._pause_s = 0.0
        else:
            self._pause_s = min(max(PAUSE_S[0], 2 * self._pause_s), PAUSE_S[1])
        self._lost_early = was_up and early
        return about(self._pause_s)


def about(seconds: float) -> float:
    """Less or more by a fifth, so that many servers are not asked at one moment."""
    return seconds * _jitter.uniform(0.8, 1.2)
