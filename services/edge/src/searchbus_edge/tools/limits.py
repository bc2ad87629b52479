"""Rate limits of callers.

`LocalLimiter` counts in this process; `SharedLimiter` over all edges, by leases from the key-value
store. While the store is unreachable, each edge counts on its own, from what it last knew, and
admits its share; where an error would cost money (`fail_closed`), calls are refused instead. What
an edge admitted alone while others had the store is counted when it is back, up to `_MOST_OWED_S`.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache

from cachetools import LRUCache

from searchbus_bus import KeyValue
from searchbus_bus.gcra import Gcra
from searchbus_bus.store.keyvalue import write_over
from searchbus_bus.tasks import within
from searchbus_contracts import ErrorCode, Fault
from searchbus_upstream import count_limit

log = logging.getLogger(__name__)

_LEASE_S = 0.25
"""A lease holds a caller's requests for this time: traffic to the store is independent of rates.
So long, too, no edge that may count on its own asks a store that failed."""
_WAIT_S = 0.1
"""What a request may lose when the store goes away."""
_CLOSED_WAIT_S = 2.0
"""The same, where it would be refused then: a store or a machine that stood still goes on."""
_MOST_OWED_S = 5.0
"""The longest that a caller waits for what an edge admitted alone, however long it was alone."""
_ATTEMPTS = 20
_MAX_LOCAL_CALLERS = 100_000
_MAX_LEASES = 50_000


class LocalLimiter:
    """Counts in this process, `burst` at once after a pause; a rate of 0 switches the limit off."""

    def __init__(
        self, rate_per_s: float, burst: int, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.rate_per_s = rate_per_s
        self.burst = max(1, burst)
        self._clock = clock
        # By caller, the one seen longest ago first.
        self._arrivals_s: dict[str, float] = {}

    async def admit(self, caller: str, *, among: int = 1) -> None:
        """Count a request; `among` processes share the limit. Raises Fault(rate_limited)."""
        if self.rate_per_s <= 0:
            return
        gcra = _part(self.rate_per_s, self.burst, max(1, among))
        now_s = self._clock()
        arrival_s = min(self.arrival_s(caller), gcra.latest(now_s) + _MOST_OWED_S)
        wait_s, arrival_s = gcra.take(arrival_s, now_s)
        self.learn(caller, arrival_s)
        if wait_s > 0:
            raise _limited(wait_s)

    def arrival_s(self, caller: str) -> float:
        """The caller's theoretical arrival time, see `Gcra`; 0 for one that is not known."""
        return self._arrivals_s.get(caller, 0.0)

    def learn(self, caller: str, arrival_s: float) -> None:
        """Set the caller's theoretical arrival time, which was counted elsewhere."""
        self._arrivals_s.pop(caller, None)
        self._arrivals_s[caller] = arrival_s
        if len(self._arrivals_s) > _MAX_LOCAL_CALLERS:
            del self._arrivals_s[next(iter(self._arrivals_s))]


@lru_cache(maxsize=256)
def _part(rate_per_s: float, burst: int, among: int) -> Gcra:
    """The limit of one of several processes."""
    return Gcra.of_rate(rate_per_s / among, burst // among)


@dataclass(frozen=True, slots=True)
class _Count:
    """A caller's theoretical arrival time (`Gcra`), and since when the edges count it together."""

    arrival_s: float
    since_s: float

    @classmethod
    def decode(cls, value: bytes) -> _Count:
        arrival_s, since_s = value.split()
        return cls(float(arrival_s), float(since_s))

    def encode(self) -> bytes:
        return f"{self.arrival_s!r} {self.since_s!r}".encode()


class SharedLimiter:
    """One limit of a caller over all edges. An only edge counts by itself, since a call that
    comes alone would wait for two requests to the store; not where an error would cost money.

    Args:
        name: of the limit; callers of different limits do not share.
        fail_closed: refuse while the store is unreachable, rather than count on its own.
        clock: seconds of the epoch.
        edges: how many share the limit; 0: not known.
    """

    def __init__(
        self,
        name: str,
        store: KeyValue,
        rate_per_s: float,
        burst: int,
        *,
        fail_closed: bool = False,
        clock: Callable[[], float] = time.time,
        edges: Callable[[], int] = lambda: 0,
    ) -> None:
        self.rate_per_s = rate_per_s
        self.burst = max(1, burst)
        self._name = name
        self._store = store
        self._fail_closed = fail_closed
        self._clock = clock
        self._edges = edges
        # Also what is known of the shared counts, so that the store may go and come.
        self._local = LocalLimiter(rate_per_s, burst, clock=clock)
        self._gcra = Gcra.of_rate(rate_per_s, burst) if rate_per_s > 0 else None
        self._lease_size = max(1, min(self.burst // 4, int(rate_per_s * _LEASE_S)))
        # Requests left and the end of each lease.
        self._leases: LRUCache[str, tuple[int, float]] = LRUCache(_MAX_LEASES)
        self._taking: dict[str, asyncio.Task[None]] = {}
        # Callers that this edge counts alone: since when, and how many requests it admitted.
        self._alone: LRUCache[str, tuple[float, int]] = LRUCache(_MAX_LEASES)
        self._away_until_s = 0.0

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
        while not self._spend(caller):
            # More than _LEASE_S: the clock was set back.
            is_away = 0 < self._away_until_s - self._clock() <= _LEASE_S
            if not self._fail_closed and (is_away or self._edges() == 1):
                await self._admit_alone(caller)
                return
            try:
                await self._lease(caller, gcra)
            except Fault as fault:
                if fault.code == ErrorCode.RATE_LIMITED:
                    raise
                if self._fail_closed:  # this one only: the store may answer the next one
                    raise _limited(1.0) from None
                self._away_until_s = self._clock() + _LEASE_S

    async def _admit_alone(self, caller: str) -> None:
        await self._local.admit(caller, among=self._edges())
        start_s, count = self._alone.get(caller, (self._clock(), 0))
        self._alone[caller] = (start_s, count + 1)

    def _spend(self, caller: str) -> bool:
        left, end_s = self._leases.get(caller, (0, 0.0))
        if left < 1 or end_s < self._clock():
            return False
        self._leases[caller] = (left - 1, end_s)
        return True

    async def _lease(self, caller: str, gcra: Gcra) -> None:
        """Wait for a lease, which all requests of the caller share that come meanwhile.

        A task of its own takes it: no request waits behind another one, and none longer than
        `_WAIT_S` or `_CLOSED_WAIT_S`. The task goes on then, for later requests.
        """
        taking = self._taking.get(caller)
        if taking is None:
            taking = asyncio.get_running_loop().create_task(self._take(caller, gcra))
            self._taking[caller] = taking
            taking.add_done_callback(lambda task: self._taken(caller, task))
        try:
            wait_s = _CLOSED_WAIT_S if self._fail_closed else _WAIT_S
            await within(asyncio.shield(taking), wait_s)
        except TimeoutError:
            raise Fault(
                ErrorCode.UNAVAILABLE, "The key-value store is slow. Try again shortly."
            ) from None

    def _taken(self, caller: str, task: asyncio.Task[None]) -> None:
        del self._taking[caller]
        error = None if task.cancelled() else task.exception()
        if error is not None and not isinstance(error, Fault):
            # A Fault is known to those who still wait.
            log.error("a lease for the limit %r failed", self._name, exc_info=error)

    async def _take(self, caller: str, gcra: Gcra) -> None:
        """Move the caller's time forward by a lease."""
        # The number is of the format of the value: a rolling update mixes none.
        key = hashlib.sha256(f"{self._name}/{caller}/2".encode()).hexdigest()[:40]
        for _ in range(_ATTEMPTS):
            entry = await self._store.get(key)
            now_s = self._clock()
            counted = _Count.decode(entry.value) if entry is not None else None
            known = self._known(caller, counted, gcra, now_s)
            latest_s = gcra.latest(now_s) + _MOST_OWED_S
            known = replace(known, arrival_s=min(known.arrival_s, latest_s))
            wait_s = gcra.wait(known.arrival_s, now_s)
            if wait_s > 0 and known == counted:
                raise _limited(wait_s)
            size = min(self._lease_size, gcra.remaining(known.arrival_s, now_s))
            arrival_s = gcra.advance(known.arrival_s, now_s, size)
            value = _Count(arrival_s, known.since_s).encode()
            if await write_over(self._store, key, value, entry) is not None:
                self._alone.pop(caller, None)
                self._local.learn(caller, arrival_s)
                if size == 0:
                    raise _limited(wait_s)
                self._leases[caller] = (size, now_s + 2 * _LEASE_S)
                return
        raise Fault(
            ErrorCode.UNAVAILABLE, "Too many edges count this caller at the same time. Try again."
        )

    def _known(self, caller: str, counted: _Count | None, gcra: Gcra, now_s: float) -> _Count:
        """The count of the store, and what this edge admitted that is missing there.

        An edge that comes back first takes it that the others used their parts too, as this edge
        did. One that comes back later owes what it admitted since then.
        """
        # The store may also have lost its memory.
        known_s = self._local.arrival_s(caller)
        if counted is None:
            return _Count(known_s, now_s)
        if caller not in self._alone:
            return _Count(max(counted.arrival_s, known_s), counted.since_s)
        start_s, admitted = self._alone[caller]
        if counted.arrival_s <= start_s + gcra.tolerance + gcra.interval:
            # Nobody counts here faster than the limit since then.
            return _Count(max(counted.arrival_s, known_s), now_s)
        # This edge's last call was not later than `known_s`: it may have been idle since.
        common_s = min(now_s, known_s) - max(start_s, counted.since_s)
        part = max(0.0, common_s * self.rate_per_s / max(1, self._edges()) + 1)
        owed_s = min(min(admitted, part) * gcra.interval, _MOST_OWED_S)
        return _Count(max(counted.arrival_s + owed_s, known_s), counted.since_s)


Limiter = LocalLimiter | SharedLimiter


def _limited(wait_s: float) -> Fault:
    retry_after_ms = max(1, int(wait_s * 1000) + 1)
    return Fault(
        ErrorCode.RATE_LIMITED,
        f"Too many requests. Wait {retry_after_ms} ms.",
        retry_after_ms=retry_after_ms,
    )
