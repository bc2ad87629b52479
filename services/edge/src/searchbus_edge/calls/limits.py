"""Rate limits of callers.

`LocalLimiter` counts in this process; `SharedLimiter` over all edges, by leases from the key-value
store. While the store is unreachable, each edge counts on its own: a caller then gets at most its
rate at each of them; where that would cost money (`fail_closed`), calls are refused instead.
"""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections.abc import Callable
from typing import Protocol
from weakref import WeakValueDictionary

from cachetools import LRUCache

from searchbus_bus import KeyValue
from searchbus_bus.gcra import Gcra
from searchbus_contracts import ErrorCode, Fault
from searchbus_upstream import count_limit

__all__ = ["Limiter", "LocalLimiter", "SharedLimiter"]

_LEASE_S = 0.25
"""A lease holds a caller's requests for this time: traffic to the store is independent of rates."""
_ATTEMPTS = 20
_MAX_LOCAL_CALLERS = 100_000
_MAX_LEASES = 50_000


class Limiter(Protocol):
    """Admits requests, on this edge alone or over several."""

    async def admit(self, caller: str) -> None:
        """Count one request; raises Fault(rate_limited) with the time to wait."""


class LocalLimiter:
    """Counts in this process.

    Args:
        rate_per_s: sustained requests of one caller; 0 switches the limit off.
        burst: requests at once after a pause.
        clock: seconds, monotonic.
    """

    def __init__(
        self, rate_per_s: float, burst: int, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.rate_per_s = rate_per_s
        self.burst = max(1, burst)
        self._gcra = Gcra.of_rate(rate_per_s, burst) if rate_per_s > 0 else None
        self._clock = clock
        # By caller, the one seen longest ago first.
        self._arrivals_s: dict[str, float] = {}

    async def admit(self, caller: str) -> None:
        """Count one request; raises Fault(rate_limited) with retry_after_ms."""
        if self._gcra is None:
            return
        now_s = self._clock()
        arrival_s = self._arrivals_s.pop(caller, 0.0)
        wait_s = self._gcra.wait(arrival_s, now_s)
        if wait_s <= 0:
            arrival_s = self._gcra.advance(arrival_s, now_s)
        self._arrivals_s[caller] = arrival_s
        if len(self._arrivals_s) > _MAX_LOCAL_CALLERS:
            del self._arrivals_s[next(iter(self._arrivals_s))]
        if wait_s > 0:
            raise _limited(wait_s)


class SharedLimiter:
    """One limit of a caller over all edges.

    Args:
        name: of the limit; callers of different limits do not share.
        store: None: this edge counts on its own.
        fail_closed: refuse while the store is unreachable, rather than count on its own.
        clock: seconds of the epoch.
    """

    def __init__(
        self,
        name: str,
        store: KeyValue | None,
        rate_per_s: float,
        burst: int,
        *,
        fail_closed: bool = False,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.rate_per_s = rate_per_s
        self.burst = max(1, burst)
        self._name = name
        self._store = store
        self._fail_closed = fail_closed
        self._clock = clock
        self._local = LocalLimiter(rate_per_s, burst, clock=clock)
        self._gcra = Gcra.of_rate(rate_per_s, burst) if rate_per_s > 0 else None
        self._lease_size = max(1, min(self.burst // 4, int(rate_per_s * _LEASE_S)))
        # Requests left and the end of each lease.
        self._leases: LRUCache[str, tuple[int, float]] = LRUCache(_MAX_LEASES)
        # A lock lives only while a request holds or awaits it: callers that left cost nothing.
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    async def admit(self, caller: str) -> None:
        """Count one request; raises Fault(rate_limited) with retry_after_ms."""
        if self._gcra is None:
            return
        try:
            await self._admit(caller, self._gcra)
        except Fault:
            count_limit(self._name, admitted=False)
            raise
        count_limit(self._name, admitted=True)

    async def _admit(self, caller: str, gcra: Gcra) -> None:
        if self._spend(caller):
            return
        lock = self._locks.setdefault(caller, asyncio.Lock())
        async with lock:
            if self._spend(caller):
                return
            try:
                await self._lease(caller, gcra)
            except Fault as fault:
                if fault.code == ErrorCode.RATE_LIMITED:
                    raise
                if self._fail_closed:
                    raise _limited(1.0) from None
                await self._local.admit(caller)

    def _spend(self, caller: str) -> bool:
        left, end_s = self._leases.get(caller, (0, 0.0))
        if left < 1 or end_s < self._clock():
            return False
        self._leases[caller] = (left - 1, end_s)
        return True

    async def _lease(self, caller: str, gcra: Gcra) -> None:
        """Move the caller's time forward by a lease, and spend the first request of it."""
        if self._store is None:
            raise Fault(ErrorCode.UNAVAILABLE, "There is no key-value store.")
        key = hashlib.sha256(f"{self._name}/{caller}".encode()).hexdigest()[:40]
        for _ in range(_ATTEMPTS):
            entry = await self._store.get(key)
            now_s = self._clock()
            arrival_s = float(entry.value) if entry is not None else 0.0
            wait_s = gcra.wait(arrival_s, now_s)
            if wait_s > 0:
                raise _limited(wait_s)
            size = min(self._lease_size, gcra.remaining(arrival_s, now_s))
            value = repr(gcra.advance(arrival_s, now_s, size)).encode()
            if entry is None:
                written = await self._store.create(key, value)
            else:
                written = await self._store.update(key, value, entry.revision)
            if written is not None:
                self._leases[caller] = (size - 1, now_s + 2 * _LEASE_S)
                return
        raise Fault(ErrorCode.UNAVAILABLE, "Too many edges count this caller at the same time.")


def _limited(wait_s: float) -> Fault:
    retry_after_ms = max(1, int(wait_s * 1000) + 1)
    return Fault(
        ErrorCode.RATE_LIMITED,
        f"Too many requests. Wait {retry_after_ms} ms.",
        retry_after_ms=retry_after_ms,
    )
