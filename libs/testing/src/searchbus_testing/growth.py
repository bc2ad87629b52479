"""Work on a long text ends: its time does not grow with the square of the text.

Nothing is measured, since a busy machine may take several times as long. The text is so long that
work whose time grows with its square takes very long on any machine, and is given up.
"""

from __future__ import annotations

import signal
from collections.abc import Callable

_CHARS = 1_000_000
"""A step for each pair of them takes at least eight minutes, at a nanosecond a step."""
_GIVE_UP_S = 120.0
"""At least twenty times what linear work takes on a busy machine."""


def work_ends(
    work: Callable[[str], object],
    unit: str,
    *,
    size: int = _CHARS,
    end: str = "",
    give_up_s: float = _GIVE_UP_S,
) -> None:
    """Do some work on a long text, in the main thread; raises AssertionError where it is given up.

    Args:
        unit: is repeated to `size` characters.
        end: stands behind them.
    """

    def give_up(number: int, frame: object) -> None:
        raise AssertionError(f"{unit[:40]!r}, repeated to {size} characters: no end is near")

    before = signal.signal(signal.SIGALRM, give_up)
    signal.setitimer(signal.ITIMER_REAL, give_up_s)
    try:
        work((unit * size)[:size] + end)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
