"""Not too often: slots at an interval that adapts, shared fairly between those who wait."""

from __future__ import annotations

import asyncio
from collections import OrderedDict, deque

from searchbus_contracts import ErrorCode, Fault

from .telemetry import count_limit

__all__ = ["Pace"]

_SUCCESSES_TO_QUICKEN = 20
_QUICKEN = 0.95
_SLACKEN = 2.0


class Pace:
    """Hands out slots to one upstream through one address.

    Args:
        interval_s: between two slots at the start; 0 switches pacing off.
        min_interval_s: never quicker; reached slowly, 5 % after every 20 successes.
        max_interval_s: never slower; every refusal doubles the interval.
        burst: slots at once after a pause.
        name: in figures.
    """

    def __init__(
        self,
        interval_s: float,
        *,
        min_interval_s: float | None = None,
        max_interval_s: float = 60.0,
        burst: int = 1,
        name: str = "pace",
    ) -> None:
        self._name = name
        self.interval_s = interval_s
        self._min_interval_s = min(interval_s, min_interval_s or interval_s)
        self._max_interval_s = max(interval_s, max_interval_s)
        self._burst = max(1, burst)
        self._successes = 0
        self._next_s = 0.0
        self._waiting: OrderedDict[str, deque[asyncio.Future[None]]] = OrderedDict()
        self._timer: asyncio.TimerHandle | None = None

    async def slot(self, caller: str, timeout_s: float) -> None:
        """Wait for a slot.

        Args:
            caller: who waits; the callers take turns, however much each asks.
            timeout_s: how long a wait is of use.

        Raises:
            Fault: overloaded with retry_after_ms, at once, where the wait would be longer.
        """
        if self.interval_s <= 0:
            return
        wait_s = self.wait_s(caller)
        count_limit(self._name, admitted=wait_s <= timeout_s)
        if wait_s > timeout_s:
            raise Fault(
                ErrorCode.OVERLOADED,
                f"Too many wait for this upstream; a turn comes in about {wait_s:.0f} s. "
                "Try again then.",
                retry_after_ms=int(wait_s * 1000),
            )
        loop = asyncio.get_running_loop()
        if not self._waiting and self._ready_s() <= 0:
            self._take(loop.time())
            return
        turn: asyncio.Future[None] = loop.create_future()
        self._waiting.setdefault(caller, deque()).append(turn)
        self._schedule()
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                # The turn came with the cancellation: nobody used it.
                self._next_s -= self.interval_s
            else:
                self._leave(caller, turn)
            raise

    def wait_s(self, caller: str) -> float:
        """About how long a new request of this caller would wait."""
        mine = len(self._waiting.get(caller, ()))
        before = mine + sum(
            min(len(turns), mine + 1) for name, turns in self._waiting.items() if name != caller
        )
        return max(0.0, self._ready_s()) + before * self.interval_s

    def succeeded(self) -> None:
        """A request went well: after many of them, a little quicker."""
        self._successes += 1
        if self._successes >= _SUCCESSES_TO_QUICKEN:
            self._successes = 0
            self.interval_s = max(self._min_interval_s, self.interval_s * _QUICKEN)

    def refused(self) -> None:
        """The upstream minded: slower at once."""
        self._successes = 0
        self.interval_s = min(self._max_interval_s, self.interval_s * _SLACKEN)

    def _ready_s(self) -> float:
        """Seconds until the next slot; the burst is counted as slots saved up."""
        saved_s = (self._burst - 1) * self.interval_s
        return self._next_s - saved_s - asyncio.get_running_loop().time()

    def _take(self, now_s: float) -> None:
        self._next_s = max(now_s, self._next_s) + self.interval_s

    def _schedule(self) -> None:
        if self._timer is None and self._waiting:
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(max(0.0, self._ready_s()), self._grant)

    def _grant(self) -> None:
        self._timer = None
        while self._waiting:
            caller, turns = next(iter(self._waiting.items()))
            turn = turns.popleft()
            if turns:
                self._waiting.move_to_end(caller)
            else:
                del self._waiting[caller]
            if not turn.done():
                self._take(asyncio.get_running_loop().time())
                turn.set_result(None)
                break
        self._schedule()

    def _leave(self, caller: str, turn: asyncio.Future[None]) -> None:
        turns = self._waiting.get(caller)
        if turns is not None and turn in turns:
            turns.remove(turn)
            if not turns:
                del self._waiting[caller]
