"""A circuit breaker (Nygard, Release It!, 2007) with a growing time of rest."""

from __future__ import annotations

import time
from collections.abc import Callable

from searchbus_bus import LiveGauge

from .telemetry import meter

__all__ = ["Breaker"]


class Breaker:
    """Open for a while after a refusal; then a single probe decides.

    Args:
        name: in figures.
        max_s: the longest rest; each refusal after a failed probe doubles it.
        clock: seconds of the epoch, so that the state can be told to other processes.
    """

    def __init__(
        self,
        name: str = "",
        *,
        max_s: float = 6 * 3600.0,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.name = name
        self._max_s = max_s
        self._clock = clock
        self._refusals = 0
        self._open_until_s = 0.0
        self._probing = False
        if name:
            _open.watch(self)

    @property
    def open_until_s(self) -> float:
        """When the rest ends, in seconds of the epoch; 0 while closed."""
        return self._open_until_s

    @property
    def closed(self) -> bool:
        """Whether requests may go."""
        return self._open_until_s == 0.0

    @property
    def remaining_s(self) -> float:
        """Seconds of rest that are left."""
        return max(0.0, self._open_until_s - self._clock())

    def refused(self, rest_s: float) -> float:
        """The upstream refused us; returns how long the rest is now."""
        if not self.closed and not self._probing:
            # Answers to requests that were under way: one refusal, told several times.
            return self.remaining_s
        rest_s = min(self._max_s, rest_s * 2**self._refusals)
        self._refusals += 1
        self._probing = False
        self._open_until_s = self._clock() + rest_s
        return rest_s

    def restore(self, open_until_s: float) -> None:
        """Take over what an earlier process knew."""
        if open_until_s > self._clock():
            self._open_until_s = open_until_s
            self._refusals = max(1, self._refusals)

    def try_probe(self) -> bool:
        """Whether the one probe may go now; `refused`, `succeeded` or `abandon` follows."""
        if self.closed or self._probing or self.remaining_s > 0:
            return False
        self._probing = True
        return True

    @property
    def usable(self) -> bool:
        """Whether a request may go: closed, or rested and not being probed."""
        return self.closed or (not self._probing and self.remaining_s == 0)

    def abandon(self) -> None:
        """The probe told nothing (a time-out, say): another may go."""
        self._probing = False

    def succeeded(self) -> None:
        """A request went through."""
        if self.closed or self._probing:
            self._refusals = 0
            self._open_until_s = 0.0
            self._probing = False


_open: LiveGauge[Breaker] = LiveGauge(
    meter,
    "searchbus.breaker.open",
    lambda breaker: [(0.0 if breaker.closed else 1.0, {"breaker": breaker.name})],
    description="1 while an upstream refuses us and is left alone, else 0.",
)
