"""One rate over all replicas: GCRA whose time stands in NATS KV.

    pace = SharedPace(kv, "tavily", rate_per_s=0.95 * 100 / 60, burst=5)
    await pace.slot(timeout_s=5.0)

Every slot moves one number (the theoretical arrival time, ms of the epoch) by compare and set.
Without KV each replica keeps its own number.
"""

from __future__ import annotations

import asyncio
import random
import time

from searchbus_bus import KeyValue
from searchbus_contracts import ErrorCode, Fault

from .telemetry import count_limit

__all__ = ["SharedPace"]

_ATTEMPTS = 30


class SharedPace:
    """Slots of one upstream account.

    Args:
        rate_per_s: of all replicas together; 0: no limit.
        burst: slots at once after a pause.
        name: in figures; the key where not given.
    """

    def __init__(
        self, kv: KeyValue | None, key: str, *, rate_per_s: float, burst: int = 1, name: str = ""
    ) -> None:
        self._name = name or key
        self._kv = kv
        self._key = key
        self._interval_ms = 1000 / rate_per_s if rate_per_s > 0 else 0.0
        self._tolerance_ms = self._interval_ms * (max(1, burst) - 1)
        self._local_ms = 0.0
        self._turn = asyncio.Lock()

    async def slot(self, timeout_s: float) -> None:
        """Wait for a slot.

        Raises:
            Fault: rate_limited with retry_after_ms, at once, where it would come too late.
        """
        if not self._interval_ms:
            return
        async with self._turn:  # one compare and set at a time in this process
            try:
                wait_ms = await self._take(timeout_s * 1000)
            except Fault:
                count_limit(self._name, admitted=False)
                raise
        count_limit(self._name, admitted=True)
        if wait_ms > 0:
            await asyncio.sleep(wait_ms / 1000)

    async def pause(self, seconds: float) -> None:
        """No slot for anybody before that: the upstream asked for it."""
        until_ms = time.time() * 1000 + seconds * 1000 + self._tolerance_ms
        self._local_ms = max(self._local_ms, until_ms)
        if self._kv is not None:
            try:
                entry = await self._kv.get(self._key)
                if entry is None or float(entry.value) < until_ms:
                    await self._kv.put(self._key, b"%.3f" % until_ms)
            except (Fault, ValueError):
                pass

    async def _take(self, patience_ms: float) -> float:
        for _ in range(_ATTEMPTS):
            now_ms = time.time() * 1000
            try:
                entry = await self._kv.get(self._key) if self._kv is not None else None
                arrival_ms = float(entry.value) if entry is not None else self._local_ms
            except (Fault, ValueError):
                entry, arrival_ms = None, self._local_ms
                return self._claim(max(now_ms, arrival_ms), now_ms, patience_ms)
            arrival_ms = max(now_ms, arrival_ms)
            wait_ms = self._claim(arrival_ms, now_ms, patience_ms)
            if self._kv is None:
                return wait_ms
            value = b"%.3f" % (arrival_ms + self._interval_ms)
            try:
                written = (
                    await self._kv.create(self._key, value)
                    if entry is None
                    else await self._kv.update(self._key, value, entry.revision)
                )
            except Fault:
                return wait_ms
            if written is not None:
                return wait_ms
            await asyncio.sleep(random.uniform(0, 0.01))  # noqa: S311  (spreading, no secret)
        raise Fault(ErrorCode.OVERLOADED, "Too many ask at once. Try again.", retry_after_ms=200)

    def _claim(self, arrival_ms: float, now_ms: float, patience_ms: float) -> float:
        wait_ms = arrival_ms - now_ms - self._tolerance_ms
        if wait_ms > patience_ms:
            raise Fault(
                ErrorCode.RATE_LIMITED,
                f"The limit of this search provider is used up for {wait_ms / 1000:.1f} s. "
                "Try again then.",
                retry_after_ms=int(wait_ms) + 1,
            )
        self._local_ms = arrival_ms + self._interval_ms
        return max(0.0, wait_ms)
