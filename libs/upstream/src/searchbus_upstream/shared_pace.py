"""One rate limit over all replicas: GCRA whose state is in the key-value store.

    pace = SharedPace(kv, "tavily", rate_per_s=0.95 * 100 / 60, burst=5)
    await pace.slot(timeout_s=5.0)

Every slot advances one number (the theoretical arrival time in milliseconds of the epoch) by
compare and set. While the store is unreachable each replica counts for itself.
"""

from __future__ import annotations

import asyncio
import random
import time

from searchbus_bus import KeyValue
from searchbus_bus.gcra import Gcra
from searchbus_contracts import ErrorCode, Fault

from .telemetry import count_limit

_ATTEMPTS = 30
_MAX_PAUSE_S = 0.01
"""Before the next compare and set, so that replicas do not collide again."""


class SharedPace:
    """Hands out slots for requests with one upstream account.

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
        self._local_arrival_ms = 0.0
        self._turn = asyncio.Lock()

    async def slot(self, timeout_s: float) -> None:
        """Wait for a slot.

        Raises:
            Fault: rate_limited with retry_after_ms, at once, where the slot would come after
                `timeout_s`; overloaded where other replicas won every compare and set.
        """
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
        until_ms = (time.time() + seconds) * 1000 + tolerance_ms
        self._local_arrival_ms = max(self._local_arrival_ms, until_ms)
        if self._kv is not None:
            try:
                entry = await self._kv.get(self._key)
                if entry is None or float(entry.value) < until_ms:
                    await self._kv.put(self._key, b"%.3f" % until_ms)
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
                arrival_ms = float(entry.value) if entry is not None else self._local_arrival_ms
            except (Fault, ValueError):
                return self._take_locally(gcra_ms, timeout_ms)
            wait_ms = _checked_wait(gcra_ms.wait(arrival_ms, now_ms), timeout_ms)
            self._local_arrival_ms = gcra_ms.advance(arrival_ms, now_ms)
            value = b"%.3f" % self._local_arrival_ms
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
            await asyncio.sleep(random.uniform(0, _MAX_PAUSE_S))  # noqa: S311
        raise Fault(
            ErrorCode.OVERLOADED, "Too many requests at once. Try again.", retry_after_ms=200
        )

    def _take_locally(self, gcra_ms: Gcra, timeout_ms: float) -> float:
        now_ms = time.time() * 1000
        wait_ms = _checked_wait(gcra_ms.wait(self._local_arrival_ms, now_ms), timeout_ms)
        self._local_arrival_ms = gcra_ms.advance(self._local_arrival_ms, now_ms)
        return wait_ms


def _checked_wait(wait_ms: float, timeout_ms: float) -> float:
    if wait_ms > timeout_ms:
        raise Fault(
            ErrorCode.RATE_LIMITED,
            f"The rate limit of this search provider is used up for {wait_ms / 1000:.1f} s. "
            "Try again then.",
            retry_after_ms=int(wait_ms) + 1,
        )
    return wait_ms
