"""A circuit breaker (Nygard, Release It!, 2007) whose cooldown grows.

closed → `refused` → open for the cooldown → one probe → closed, or open for twice as long
closed → `suspect` → open for the cooldown → one probe → closed, or `refused`
"""

from __future__ import annotations

import time
from collections.abc import Callable

from searchbus_bus import LiveGauge
from searchbus_contracts import LivePart

from .telemetry import meter


class Breaker:
    """Open for a cooldown after a refusal; then a single probe decides.

    Args:
        name: in metrics; an empty name is not measured.
        kind: in metrics, of what refuses: an egress address, an engine, a key or a provider.
        max_cooldown_s: the longest cooldown; each refused probe doubles it up to this.
        clock: seconds of the epoch, so that other processes can use `open_until_s`.
    """

    def __init__(
        self,
        name: str = "",
        *,
        kind: str = "",
        max_cooldown_s: float = 6 * 3600.0,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.name = name
        self.kind = kind
        self._max_cooldown_s = max_cooldown_s
        self._clock = clock
        self._refusals = 0
        self._open_until_s = 0.0
        self._cooldown_s = 0.0
        self._probing = False
        if name:
            _open.watch(self)

    @property
    def open_until_s(self) -> float:
        """When the cooldown ends, in seconds of the epoch; 0 while closed."""
        return self._open_until_s

    @property
    def closed(self) -> bool:
        """Whether requests may be sent."""
        return self._open_until_s == 0.0

    @property
    def usable(self) -> bool:
        """Whether a request may be sent: closed, or cooled down and without a probe under way."""
        return self.closed or (not self._probing and self.remaining_s == 0)

    @property
    def suspected(self) -> bool:
        """Whether it is open by a suspicion only."""
        return not self.closed and self._refusals == 0

    @property
    def remaining_s(self) -> float:
        """Seconds until the cooldown ends."""
        left_s = self._open_until_s - self._clock()
        if left_s > self._cooldown_s:  # the clock was set back
            self._open_for(self._cooldown_s)
            return self._cooldown_s
        return max(0.0, left_s)

    def part(self, kind: str, numbers: dict[str, float] | None = None) -> LivePart:
        """What it says of itself to a console: a part of this kind, with more numbers."""
        state = "closed" if self.closed else "suspected" if self.suspected else "open"
        return LivePart(
            kind=kind, name=self.name, state=state, until_ms=int(self._open_until_s * 1000),
            numbers=numbers or {},
        )  # fmt: skip

    def refused(self, cooldown_s: float) -> float:
        """Record a refusal by the upstream; returns the length of the cooldown."""
        if not self.closed and not self._probing and not self.suspected:
            # A reply to a request sent before the breaker opened belongs to the same refusal.
            return self.remaining_s
        cooldown_s = min(self._max_cooldown_s, cooldown_s * 2**self._refusals)
        self._refusals += 1
        self._probing = False
        self._open_for(cooldown_s)
        return cooldown_s

    def suspect(self, cooldown_s: float) -> None:
        """Open for a cooldown that counts as no refusal: the probe decides whether it was one."""
        if self.closed:
            self._open_for(cooldown_s)

    def succeeded(self) -> None:
        """Record a success: the breaker closes."""
        if self.closed or self._probing:
            self._refusals = 0
            self._open_until_s = 0.0
            self._probing = False

    def try_probe(self) -> bool:
        """Whether the one probe may be sent now.

        After True call `refused`, `succeeded`, `abandon` or `close`.
        """
        if self.closed or self._probing or self.remaining_s > 0:
            return False
        self._probing = True
        return True

    def close(self) -> None:
        """Close without a success: a suspicion was not confirmed."""
        self._open_until_s = 0.0
        self._probing = False

    def abandon(self) -> None:
        """The probe was inconclusive (a timeout, say): another may be sent."""
        self._probing = False

    def restore(self, open_until_s: float) -> None:
        """Continue the cooldown of an earlier process."""
        if (left_s := open_until_s - self._clock()) > 0:
            self._open_for(left_s)
            self._refusals = max(1, self._refusals)

    def _open_for(self, cooldown_s: float) -> None:
        self._open_until_s, self._cooldown_s = self._clock() + cooldown_s, cooldown_s


_open: LiveGauge[Breaker] = LiveGauge(
    meter,
    "searchbus.breaker.open",
    # After its cooldown it waits for a request to probe by, which may not come for hours.
    lambda b: [(0.0 if b.usable else 1.0, {"breaker": b.name, "kind": b.kind})],
    description="1 while an upstream refuses requests and gets none, else 0.",
)
