"""Whether the CPU time of some work grows with its input, or with the square of it."""

from __future__ import annotations

import time
from collections.abc import Callable

__all__ = ["LINEAR", "growth"]

LINEAR = 30.0
"""Between 8, of time that grows with the text, and 64, of time that grows with its square."""
_TIMES = 8
_ATTEMPTS = 12
_LEAST_S = 0.001
"""Shorter times say more of the clock than of the work."""


def growth(
    work: Callable[[str], object],
    unit: str,
    size: int,
    *,
    end: str = "",
    clock: Callable[[], float] = time.thread_time,
) -> float:
    """How many times the CPU time eight times the text takes; below LINEAR it grows with the text.

    On a busy machine one measurement may take several times its time. So the least times of several
    attempts count, and there are attempts until the result is below LINEAR, up to a dozen.

    Args:
        unit: is repeated to `size` characters, and to eight times as many.
        end: stands behind both texts.
    """
    short, long = ((unit * count)[:count] + end for count in (size, _TIMES * size))
    short_s = long_s = float("inf")
    for _ in range(_ATTEMPTS):
        short_s = min(short_s, _taken_s(work, short, clock))
        long_s = min(long_s, _taken_s(work, long, clock))
        if long_s < LINEAR * max(short_s, _LEAST_S):
            break
    return long_s / max(short_s, _LEAST_S)


def _taken_s(work: Callable[[str], object], text: str, clock: Callable[[], float]) -> float:
    started_s = clock()
    work(text)
    return clock() - started_s
