"""Alarms that are mostly cancelled before they ring: one timer of the event loop for all of them.

    alarms().set(limit, 5.0)      # calls limit.ring() in 5 s
    alarms().cancel(limit)

A request sets two or three and cancels them a moment later. As timers of uvloop they took 3 % more
of the edge's time: the loop makes, closes and frees a handle for each, and polls its sockets more.
"""

from __future__ import annotations

import asyncio
import logging
import math
import time
from typing import Protocol

log = logging.getLogger("searchbus.bus")

LATE_S = 0.02
"""So much later than its time an alarm may ring, where there are thousands."""
_PAUSE_S = 10e-6
"""For each alarm, between two looks at all of them: a look takes a hundredth of that."""
_EARLY_S = 0.0005
"""The loop counts milliseconds: its timer may be so much early."""


class Alarm(Protocol):
    """What can be set; it rings at most once, and may be set again."""

    def ring(self) -> None:
        """Its time has come."""


class Alarms:
    """The alarms of one event loop; `alarms` has those of the running one."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self._at_s: dict[Alarm, float] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._looks_at_s = math.inf

    def set(self, alarm: Alarm, after_s: float) -> None:
        """Ring an alarm after so many seconds, unless it is cancelled before."""
        at_s = time.monotonic() + after_s
        self._at_s[alarm] = at_s
        if at_s < self._looks_at_s:
            self._look_at(at_s)

    def cancel(self, alarm: Alarm) -> None:
        """Let an alarm not ring; nothing happens where it is not set."""
        self._at_s.pop(alarm, None)

    def _look_at(self, at_s: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._looks_at_s = at_s
        self._timer = self.loop.call_later(max(0.0, at_s - time.monotonic()), self._look)

    def _look(self) -> None:
        """Ring what is due."""
        self._timer = None
        self._looks_at_s = math.inf
        now_s = time.monotonic()
        due = [alarm for alarm, at_s in self._at_s.items() if at_s <= now_s + _EARLY_S]
        for alarm in sorted(due, key=self._at_s.__getitem__):
            if self._at_s.pop(alarm, None) is None:
                continue  # another one that rang cancelled it
            try:
                alarm.ring()
            except Exception:  # the others ring all the same
                log.exception("an alarm failed")
        if self._at_s:
            pause_s = min(LATE_S, len(self._at_s) * _PAUSE_S)
            self._look_at(max(min(self._at_s.values()), now_s + pause_s))


_latest: Alarms | None = None


def alarms() -> Alarms:
    """Those of the running event loop."""
    global _latest
    loop = asyncio.get_running_loop()
    # A process has one loop. Where it has several, an alarm still belongs to the one it was set in.
    if _latest is None or _latest.loop is not loop:
        _latest = Alarms(loop)
    return _latest
