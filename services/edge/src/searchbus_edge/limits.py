"""How often a caller may ask: GCRA, the leaky bucket of ITU-T I.371 as a virtual schedule."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable
from typing import Protocol

from searchbus_contracts import ErrorCode, Fault

__all__ = ["Limiter", "LocalLimiter"]


class Limiter(Protocol):
    """Admits requests, on this edge alone or over several."""

    async def admit(self, caller: str) -> None:
        """Count one request; raises Fault(rate_limited) with the time to wait."""


class LocalLimiter:
    """Keeps one time a caller, in this process.

    Args:
        rate_per_s: sustained requests of one caller; 0 switches the limit off.
        burst: requests at once after a pause.
        clock: seconds, monotonic.
    """

    _MAX_CALLERS = 100_000

    def __init__(
        self, rate_per_s: float, burst: int, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._interval_s = 1 / rate_per_s if rate_per_s > 0 else 0.0
        self._tolerance_s = self._interval_s * (max(1, burst) - 1)
        self._clock = clock
        self._arrival_s: OrderedDict[str, float] = OrderedDict()

    async def admit(self, caller: str) -> None:
        """Count one request.

        Raises:
            Fault: rate_limited, with retry_after_ms.
        """
        if not self._interval_s:
            return
        now_s = self._clock()
        arrival_s = max(now_s, self._arrival_s.get(caller, 0.0))
        wait_s = arrival_s - now_s - self._tolerance_s
        if wait_s > 1e-9:
            retry_after_ms = max(1, int(wait_s * 1000) + 1)
            raise Fault(
                ErrorCode.RATE_LIMITED,
                f"Too many searches. Wait {retry_after_ms} ms.",
                retry_after_ms=retry_after_ms,
            )
        self._arrival_s[caller] = arrival_s + self._interval_s
        self._arrival_s.move_to_end(caller)
        while self._arrival_s and (
            len(self._arrival_s) > self._MAX_CALLERS
            or next(iter(self._arrival_s.values())) < now_s - 60
        ):
            self._arrival_s.popitem(last=False)
