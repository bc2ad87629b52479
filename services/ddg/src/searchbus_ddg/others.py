"""What a worker knows of the other egress addresses: which have a worker, which are refused.

A refusal is one entry of a bucket, written when a breaker opens and deleted when it closes. Every
worker watches these: a change is one message to each, and nothing is sent while nothing changes.
Who holds a lease is read as one list of keys, and only by a worker whose own address is refused.
"""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections.abc import Callable

import msgspec

from searchbus_bus import KeyValue, end_task
from searchbus_contracts import Fault, decode, encode
from searchbus_upstream import Breaker

__all__ = ["Others"]

log = logging.getLogger("searchbus.ddg")

_PROBE_S = 30.0
"""An address counts as refused for this long after its cooldown, while it sends its probe."""
_MOST_READ = 32
"""Refusals read one by one in a look: of those from before this worker watched."""


class _Refusal(msgspec.Struct):
    """The state of a worker, for the others and for its own next start."""

    open_until_s: float = 0.0
    suspected: bool = False
    left: bool = False
    """It stopped, and nobody has its address yet."""

    @property
    def end_s(self) -> float:
        """When the address may be used again."""
        return math.inf if self.left else self.open_until_s


class Others:
    """The addresses of the other workers, and this one's own refusal.

    Args:
        key: of the own address, by `egress_id`.
        on_change: called when the refusal of another address changed.
        clock: seconds of the epoch.
    """

    def __init__(
        self,
        key: str,
        leases: KeyValue,
        refusals: KeyValue,
        *,
        on_change: Callable[[], None] = lambda: None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._key = key
        self._leases = leases
        self._refusals = refusals
        self._on_change = on_change
        self._clock = clock
        self._held: frozenset[str] = frozenset()
        self._end_s: dict[str, float] = {}
        self._written: set[str] = set()
        self._published = _Refusal()
        self._looking: asyncio.Task[None] | None = None
        self._looked_s = -math.inf

    @property
    def healthy(self) -> bool:
        """Whether another worker's address is not refused, as far as is known."""
        now_s = self._clock()
        return any(self._end_s.get(key, 0.0) + _PROBE_S < now_s for key in self._held)

    @property
    def first_probe_s(self) -> float:
        """When the first of their cooldowns ends, in seconds of the epoch; infinite without any."""
        return min((self._end_s.get(key, 0.0) for key in self._held), default=math.inf)

    async def start(self, breaker: Breaker) -> None:
        """Watch the others' refusals, and continue the cooldown of the last worker of this address.

        A suspicion is not continued: nothing is proved yet.
        """
        await self._refusals.watch(self._on_write)
        try:
            known = await self._refusals.get(self._key)
            earlier = decode(known.value, _Refusal) if known is not None else None
        except Fault as fault:
            log.info("an earlier refusal is not known: %s", fault.failure.message)
            return
        if earlier is not None:
            self._published = earlier
            if not (self._published.suspected or self._published.left):
                breaker.restore(self._published.open_until_s)

    async def publish(self, breaker: Breaker, *, emptied: bool = False) -> None:
        """Write the state of the own address where it changed; raises Fault.

        Args:
            emptied: the store has lost its memory: a refusal is written again.
        """
        if emptied:
            self._published = _Refusal()
        refusal = _Refusal(breaker.open_until_s, breaker.suspected)
        if refusal == self._published:
            return
        if breaker.closed:
            await self._refusals.delete(self._key)
        else:
            await self._refusals.put(self._key, encode(refusal))
        self._published = refusal

    async def leave(self, breaker: Breaker) -> None:
        """Say that nobody uses the own address any more; a refusal stays. Raises Fault."""
        await self.publish(breaker)
        if breaker.closed:
            await self._refusals.put(self._key, encode(_Refusal(left=True)))

    async def look(self, *, younger_than_s: float, timeout_s: float = math.inf) -> bool:
        """Read who is there, unless the last look is younger; callers at the same time share one.

        Args:
            timeout_s: afterwards the look goes on.

        Returns:
            False after the timeout: what is known is from an earlier look.

        Raises:
            Fault: the store is unreachable; nobody is then known to be there.
        """
        if time.monotonic() - self._looked_s < younger_than_s:
            return True
        if self._looking is None or self._looking.done():
            self._looking = asyncio.get_running_loop().create_task(self._look())
            self._looking.add_done_callback(_note_failure)
        looking = self._looking
        await asyncio.wait({looking}, timeout=None if timeout_s == math.inf else timeout_s)
        if looking.done():
            looking.result()
        return looking.done()

    async def close(self) -> None:
        """End a look that is under way."""
        await end_task(self._looking)

    async def _look(self) -> None:
        self._written.clear()
        try:
            held = frozenset(await self._leases.keys()) - {self._key}
            refused = frozenset(await self._refusals.keys()) - {self._key}
            for key in self._end_s.keys() - refused - self._written:
                del self._end_s[key]
            # Missed while there was no connection, or written before this worker started.
            now_s = self._clock()
            unknown = [k for k in refused & held if not now_s < self._end_s.get(k, 0) < math.inf]
            for key in unknown[_MOST_READ:]:
                self._end_s[key] = now_s
            for key in unknown[:_MOST_READ]:
                entry = await self._refusals.get(key)
                self._note(key, entry.value if entry is not None else None)
        except Fault:
            self._held = frozenset()
            raise
        self._held = held
        self._looked_s = time.monotonic()

    def _on_write(self, key: str, value: bytes | None) -> None:
        if key == self._key:
            return
        self._written.add(key)
        self._note(key, value)
        self._on_change()

    def _note(self, key: str, value: bytes | None) -> None:
        if value is None:
            self._end_s.pop(key, None)
            return
        try:
            self._end_s[key] = decode(value, _Refusal).end_s
        except Fault as fault:
            log.warning("a refusal cannot be read: %s", fault.failure.message)


def _note_failure(look: asyncio.Task[None]) -> None:
    """Log the failure of a look, since nobody may wait for it any more."""
    if not look.cancelled() and (error := look.exception()) is not None:
        log.debug("the other workers could not be read: %s", error)
