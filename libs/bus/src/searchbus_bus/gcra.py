"""The generic cell rate algorithm (ITU-T I.371, annex A), as a virtual schedule.

The state of one caller is a number, its theoretical arrival time, from 0 on. The caller of these
functions keeps it, in a dictionary or in the key-value store by compare and set.
"""

from __future__ import annotations

from dataclasses import dataclass

_ROUNDING = 1e-9
"""In intervals: rounding of sums must not refuse the last request of a burst."""


@dataclass(frozen=True, slots=True)
class Gcra:
    """A rate limit.

    Args:
        interval: time between two requests at the sustained rate, in any unit; times passed to
            the methods have the same unit and any common origin.
        burst: requests admitted at once after a pause, 1 or more.
    """

    interval: float
    burst: int = 1

    @classmethod
    def of_rate(cls, rate_per_s: float, burst: int = 1) -> Gcra:
        """A limit of `rate_per_s` requests per second, with times in seconds."""
        return cls(1 / rate_per_s, max(1, burst))

    @property
    def tolerance(self) -> float:
        """How far the arrival time may lie ahead of now."""
        return self.interval * (self.burst - 1)

    def wait(self, arrival: float, now: float) -> float:
        """Time until the next request conforms; 0 where it conforms now."""
        wait = max(arrival, now) - now - self.tolerance
        return wait if wait > _ROUNDING * self.interval else 0.0

    def take(self, arrival: float, now: float) -> tuple[float, float]:
        """`wait`, and the arrival time after one request, if it was admitted."""
        wait = self.wait(arrival, now)
        return (wait, arrival) if wait else (0.0, self.advance(arrival, now))

    def remaining(self, arrival: float, now: float) -> int:
        """How many requests conform now, 0 to `burst`."""
        if self.wait(arrival, now) > 0:
            return 0
        ahead = max(arrival, now) - now
        return int((self.tolerance - ahead) / self.interval + 1e-6) + 1

    def advance(self, arrival: float, now: float, count: int = 1) -> float:
        """The arrival time after `count` requests were admitted."""
        return max(arrival, now) + count * self.interval

    def latest(self, now: float) -> float:
        """The latest arrival time that requests can lead to; a later one is of a clock that was set
        back since."""
        return now + self.tolerance + self.interval
