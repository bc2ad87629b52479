"""Pacing of requests to an upstream: of one process, with fair turns, and of all replicas.

pace = SharedPace(kv, "tavily", rate_per_s=0.95 * 100 / 60, burst=5)
await pace.slot(timeout_s=5.0)
"""

from __future__ import annotations

import asyncio
import math
import random
import time
from collections import OrderedDict, deque

from searchbus_bus import KeyValue
from searchbus_bus.gcra import Gcra
from searchbus_bus.store.keyvalue import write_over
from searchbus_contracts import ErrorCode, Fault

from .telemetry import count_limit

_SLOW_DOWN = 2.0
_RECOVERY_S = 300.0
"""Within this time the interval halves, however few requests there are."""


class Pace:
    """Hands out slots for requests to one upstream from one address, at an interval that adapts.

    Args:
        interval_s: between two slots at the start; 0 switches pacing off.
        min_interval_s: the shortest interval, approached by time; `None` keeps `interval_s`.
        max_interval_s: the longest interval; every refusal doubles the interval up to this.
        burst: slots at once after a pause.
        name: in metrics.
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
        self._set_interval_s = interval_s
        self._set_at_s: float | None = None
        self._min_interval_s = min(interval_s, min_interval_s or interval_s)
        self._max_interval_s = max(interval_s, max_interval_s)
        self._burst = max(1, burst)
        self._arrival_s = 0.0
        self._waiting: OrderedDict[str, deque[asyncio.Future[None]]] = OrderedDict()
        self._timer: asyncio.TimerHandle | None = None

    @property
    def interval_s(self) -> float:
        """The interval now, in seconds."""
        now_s = asyncio.get_running_loop().time()
        if self._set_at_s is None:
            self._set_at_s = now_s
        recovered: float = 0.5 ** ((now_s - self._set_at_s) / _RECOVERY_S)
        return max(self._min_interval_s, self._set_interval_s * recovered)

    @property
    def waiting(self) -> int:
        """Requests that wait for their turn."""
        return sum(map(len, self._waiting.values()))

    async def slot(self, caller: str, timeout_s: float) -> None:
        """Wait for a slot.

        Args:
            caller: who waits; callers take turns, however many requests each of them has.
            timeout_s: the longest acceptable wait.

        Raises:
            Fault: overloaded with retry_after_ms where the wait would be longer, at once; or what
                `fail_waiting` was given.
        """
        if self._set_interval_s <= 0:
            return
        wait_s = self.wait_s(caller)
        count_limit(self._name, admitted=wait_s <= timeout_s)
        if wait_s > timeout_s:
            raise _too_late(wait_s)
        loop = asyncio.get_running_loop()
        if not self._waiting and self._ready_s() <= 0:
            self._take(loop.time())
            return
        turn: asyncio.Future[None] = loop.create_future()
        self._waiting.setdefault(caller, deque()).append(turn)
        self._schedule()
        try:
            # No timeout that cancels: a turn that comes in the same moment counts.
            await asyncio.wait({turn}, timeout=timeout_s)
        except asyncio.CancelledError:
            if turn.done() and turn.exception() is None:
                # The slot was granted while the caller was cancelled: give it back.
                self._arrival_s -= self.interval_s
            raise
        finally:
            self._leave(caller, turn)
        if not turn.done():  # other callers came later, and had their turns before
            raise _too_late(self.wait_s(caller))
        turn.result()

    def wait_s(self, caller: str) -> float:
        """About how long a new request of this caller would wait, in seconds."""
        mine = len(self._waiting.get(caller, ()))
        before = mine + sum(
            min(len(turns), mine + 1) for name, turns in self._waiting.items() if name != caller
        )
        return self._ready_s() + before * self.interval_s

    def refused(self) -> None:
        """Record a refusal by the upstream: the interval doubles at once."""
        self._set_interval_s = min(self._max_interval_s, self.interval_s * _SLOW_DOWN)
        self._set_at_s = asyncio.get_running_loop().time()

    def fail_waiting(self, fault: Fault) -> None:
        """End every wait with a failure, because the upstream takes no more requests for now."""
        for turns in self._waiting.values():
            for turn in turns:
                if not turn.done():
                    turn.set_exception(Fault.of(fault.failure))
        self._waiting.clear()

    @property
    def _gcra(self) -> Gcra:
        return Gcra(self.interval_s, self._burst)

    def _ready_s(self) -> float:
        """Seconds until the next slot; 0 where there is one now."""
        return self._gcra.wait(self._arrival_s, asyncio.get_running_loop().time())

    def _take(self, now_s: float) -> None:
        self._arrival_s = self._gcra.advance(self._arrival_s, now_s)

    def _schedule(self) -> None:
        if self._timer is None and self._waiting:
            self._timer = asyncio.get_running_loop().call_later(self._ready_s(), self._grant)

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


def _too_late(wait_s: float) -> Fault:
    return Fault(
        ErrorCode.OVERLOADED,
        "Too many requests are waiting for this upstream: this service sends them at a limited "
        f"pace. The next turn is in about {max(1, math.ceil(wait_s))} s. Try again then.",
        retry_after_ms=max(1, math.ceil(wait_s * 1000)),
    )


_ATTEMPTS = 30
_MAX_PAUSE_S = 0.01
"""Before the next compare and set, so that replicas do not collide again."""
_MAX_SKEW_MS = 1000.0
"""As far clocks of hosts may differ: the arrival time must not move by that with each replica."""


class SharedPace:
    """Hands out slots for requests with one upstream account: GCRA with its state in the store.

    Every slot advances the theoretical arrival time (milliseconds of the epoch) by compare and set.
    While the store is unreachable each replica counts for itself.

    Args:
        kv: None: this process counts for itself.
        rate_per_s: of all replicas together; 0 switches the limit off.
        burst: slots at once after a pause.
        name: in metrics; by default the key.
    """

    def __init__(
        self, kv: KeyValue | None, key: str, *, rate_per_s: float, burst: int = 1, name: str = ""
    ) -> None:
        self._name = name or key
        self._kv = kv
        self._key = key
        self._gcra_ms = Gcra(1000 / rate_per_s, max(1, burst)) if rate_per_s > 0 else None
        self._local = _value(0.0, 0.0)
        self._turn = asyncio.Lock()

    async def slot(self, timeout_s: float) -> None:
        """Wait for a slot; raises Fault at once: rate_limited where it would come after
        `timeout_s`, overloaded where other replicas won every compare and set."""
        if self._gcra_ms is None:
            return
        async with self._turn:  # one compare and set at a time in this process
            try:
                wait_ms = await self._take(self._gcra_ms, timeout_s * 1000)
            except Fault:
                count_limit(self._name, admitted=False)
                raise
        count_limit(self._name, admitted=True)
        if wait_ms > 0:
            await asyncio.sleep(wait_ms / 1000)

    async def pause(self, seconds: float) -> None:
        """Grant no slot in any replica for some time, because the upstream asked for it."""
        tolerance_ms = self._gcra_ms.tolerance if self._gcra_ms is not None else 0.0
        now_ms = time.time() * 1000
        until_ms = now_ms + seconds * 1000 + tolerance_ms
        self._local = _value(max(_arrival_ms(self._local, now_ms), until_ms), now_ms)
        if self._kv is not None:
            try:
                entry = await self._kv.get(self._key)
                if entry is None or _arrival_ms(entry.value, now_ms) < until_ms:
                    await self._kv.put(self._key, _value(until_ms, now_ms))
            except (Fault, ValueError):
                pass  # this replica pauses; the others receive the upstream's refusal themselves

    async def _take(self, gcra_ms: Gcra, timeout_ms: float) -> float:
        """Take the next slot; returns the milliseconds until then."""
        if self._kv is None:
            return self._take_locally(gcra_ms, timeout_ms)
        for _ in range(_ATTEMPTS):
            now_ms = time.time() * 1000
            try:
                entry = await self._kv.get(self._key)
                arrival_ms = _arrival_ms(self._local if entry is None else entry.value, now_ms)
            except (Fault, ValueError):
                return self._take_locally(gcra_ms, timeout_ms)
            wait_ms = _checked_wait(gcra_ms.wait(arrival_ms, now_ms), timeout_ms)
            self._local = _value(gcra_ms.advance(arrival_ms, now_ms), now_ms)
            try:
                written = await write_over(self._kv, self._key, self._local, entry)
            except Fault:
                return wait_ms
            if written is not None:
                return wait_ms
            await asyncio.sleep(random.uniform(0, _MAX_PAUSE_S))  # noqa: S311
        raise Fault(
            ErrorCode.OVERLOADED, "Too many requests at once. Try again.", retry_after_ms=200
        )

    def _take_locally(self, gcra_ms: Gcra, timeout_ms: float) -> float:
        now_ms = time.time() * 1000
        arrival_ms = _arrival_ms(self._local, now_ms)
        wait_ms = _checked_wait(gcra_ms.wait(arrival_ms, now_ms), timeout_ms)
        self._local = _value(gcra_ms.advance(arrival_ms, now_ms), now_ms)
        return wait_ms


def _value(arrival_ms: float, now_ms: float) -> bytes:
    """What is kept: the arrival time, and when it was written."""
    return b"%.3f %.3f" % (arrival_ms, now_ms)


def _arrival_ms(value: bytes, now_ms: float) -> float:
    """The arrival time that was kept; it moves with a clock that was set back since. Raises
    ValueError."""
    arrival_ms, written_ms = map(float, value.split())
    back_ms = written_ms - now_ms
    return arrival_ms - back_ms if back_ms > _MAX_SKEW_MS else arrival_ms


def _checked_wait(wait_ms: float, timeout_ms: float) -> float:
    if wait_ms > timeout_ms:
        raise Fault(
            ErrorCode.RATE_LIMITED,
            f"The rate limit of this search provider is used up for {wait_ms / 1000:.1f} s. "
            "Try again then.",
            retry_after_ms=int(wait_ms) + 1,
        )
    return wait_ms
