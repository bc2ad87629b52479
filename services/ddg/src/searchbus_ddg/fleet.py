"""The fleet of workers: one egress address each, and which of them are in the queue group.

An address belongs to the worker that holds its lease (egress.py); surplus workers stay on standby.
A worker whose address is refused leaves the queue group, so that the others carry the load, sends a
probe when the cooldown ends, and joins again after a success. The last worker stays: calls then
fail immediately, with the time until the first probe.
"""

from __future__ import annotations

import asyncio
import logging
import math
import random
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import KW_ONLY, dataclass

import msgspec

from searchbus_bus import KeyValue, Serving, end_task, wait_for_event
from searchbus_bus.store.lease import Lease
from searchbus_contracts import Fault, decode, encode
from searchbus_upstream import Breaker

from .egress import Egress

log = logging.getLogger("searchbus.ddg")

_PROBE_S = 30.0
"""An address counts as refused for this long after its cooldown, while it sends its probe."""
_MOST_READ = 32
"""Refusals from before this worker watched that a look reads one by one."""
_UPDATE_EVERY_S = 2.0
_LOOK_EVERY_S = 3.0
_FRESH_S = 1.0
"""A request that is refused looks for other workers unless the last look is younger."""
_LOOK_TIMEOUT_S = 0.1
"""What such a request may lose by it."""
_TAKEN_S = 0.25
"""A worker that left goes on for this long: one on standby takes the lease in a few hundredths."""
_SERVES_S = 3.0
"""If one took it, at most this much longer, until that one serves: no call finds no worker."""


class _Refusal(msgspec.Struct):
    """The state of a worker, for the others and for its own next start."""

    open_until_s: float = 0.0
    suspected: bool = False
    left: bool = False
    """It stopped, and nobody serves with its address yet."""

    @property
    def end_s(self) -> float:
        """When the address may be used again."""
        return math.inf if self.left else self.open_until_s


@dataclass(eq=False)
class Others:
    """What a worker knows of the other addresses, and its own refusal.

    A refusal is one entry of a bucket, written when a breaker opens and deleted when it closes.
    Every worker watches these: a change is one message to each, and nothing is sent while nothing
    changes. Who holds a lease is read as one list of keys, and only by a worker whose own address
    is refused.

    Args:
        key: of the own address, by `egress_id`.
        on_change: called when the refusal of another address changed.
        clock: seconds of the epoch.
    """

    key: str
    leases: KeyValue
    refusals: KeyValue
    _: KW_ONLY
    on_change: Callable[[], None] = lambda: None
    clock: Callable[[], float] = time.time

    def __post_init__(self) -> None:
        self._held: frozenset[str] = frozenset()
        self._end_s: dict[str, float] = {}
        self._written: set[str] = set()
        self._published = _Refusal()
        self._looking: asyncio.Task[None] | None = None
        self._looked_s = -math.inf
        self._replaced = asyncio.Event()

    @property
    def healthy(self) -> bool:
        """Whether another worker's address is not refused, as far as is known."""
        now_s = self.clock()
        return any(self._end_s.get(key, 0.0) + _PROBE_S < now_s for key in self._held)

    @property
    def first_probe_s(self) -> float:
        """When the first of their cooldowns ends, in seconds of the epoch; infinite without any."""
        return min((self._end_s.get(key, 0.0) for key in self._held), default=math.inf)

    async def start(self, breaker: Breaker) -> None:
        """Watch the others' refusals, and continue the cooldown of the last worker of this address.

        A suspicion is not continued: nothing is proved yet.
        """
        await self.refusals.watch(self._on_write)
        try:
            known = await self.refusals.get(self.key)
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
            await self.refusals.delete(self.key)
        else:
            await self.refusals.put(self.key, encode(refusal))
        self._published = refusal

    async def leave(self, breaker: Breaker) -> None:
        """Say that nobody uses the own address any more; a refusal stays. Raises Fault."""
        await self.publish(breaker)
        if breaker.closed:
            self._replaced.clear()
            await self.refusals.put(self.key, encode(_Refusal(left=True)))

    async def replaced(self) -> None:
        """Wait until the next worker serves with the address, if one took the lease at once."""
        if not await wait_for_event(self._replaced, _TAKEN_S):
            with suppress(Fault):
                if await self.leases.get(self.key) is not None:
                    await wait_for_event(self._replaced, _SERVES_S)

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
            held = frozenset(await self.leases.keys()) - {self.key}
            refused = frozenset(await self.refusals.keys()) - {self.key}
            for key in self._end_s.keys() - refused - self._written:
                del self._end_s[key]
            # Missed while there was no connection, or written before this worker started.
            now_s = self.clock()
            unknown = [k for k in refused & held if not now_s < self._end_s.get(k, 0) < math.inf]
            for key in unknown[_MOST_READ:]:
                self._end_s[key] = now_s
            for key in unknown[:_MOST_READ]:
                entry = await self.refusals.get(key)
                self._note(key, entry.value if entry is not None else None)
        except Fault:
            self._held = frozenset()
            raise
        self._held = held
        self._looked_s = time.monotonic()

    def _on_write(self, key: str, value: bytes | None) -> None:
        if key == self.key:
            if value is None:
                self._replaced.set()
            return
        self._written.add(key)
        self._note(key, value)
        self.on_change()

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


class ScraperFleet:
    """This worker's membership. Use as an asynchronous context manager.

    Args:
        key: of the address in leases, by `egress_id`.
        leases: of all workers.
        refusals: open breakers; kept longer than a lease, for a restarted worker.
        probe: sends a harmless request through the egress; True where it succeeded.
        update_every_s: between two updates of the lease; each is up to a fifth earlier or later.
    """

    def __init__(
        self,
        egress: Egress,
        key: str,
        holder: str,
        leases: KeyValue,
        refusals: KeyValue,
        probe: Callable[[], Awaitable[bool]],
        *,
        update_every_s: float = _UPDATE_EVERY_S,
    ) -> None:
        self.key = key
        self._egress = egress
        self._lease = Lease(leases, key, holder.encode())
        self._lost = False
        self._others = Others(
            key, leases, refusals, on_change=self._others_changed, clock=time.time
        )
        self._probe = probe
        self._update_every_s = update_every_s
        self._refresh_s = 0.0
        self._serving: Serving | None = None
        self._joined = True
        self._moving: asyncio.Task[None] | None = None
        self._reachable = True
        self._wake = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        egress.on_refused = self._wake.set

    async def __aenter__(self) -> ScraperFleet:
        await self._others.start(self._egress.breaker)
        self._task = asyncio.get_running_loop().create_task(self._run())
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.release()

    async def release(self) -> None:
        """End the membership, once: a worker on standby gets the lease, and serves at the end."""
        task, self._task = self._task, None
        if task is None:
            return
        await end_task(task)
        await end_task(self._moving)
        await self._others.close()
        if self._lost:
            return
        try:
            # First, since the next holder of the lease takes it back.
            await self._others.leave(self._egress.breaker)
        except Fault as fault:
            log.info("the others see later that this worker left: %s", fault.failure.message)
        await self._lease.release()
        if self._egress.breaker.closed:
            await self._others.replaced()

    def manage(self, serving: Serving) -> None:
        """From now on join and leave the queue group of this serving."""
        self._serving = serving
        self._wake.set()

    @property
    def remaining_s(self) -> float:
        """Seconds until the first address of the fleet is probed."""
        first_s = min(self._egress.breaker.open_until_s, self._others.first_probe_s)
        return max(0.0, first_s - time.time())

    async def leave_to_others(self) -> bool | None:
        """Leave the queue group now if refused, and whether a healthy worker can take a request.

        Returns:
            None while that is not known: the store is away, or does not answer in time.
        """
        known = False
        try:
            await self._others.publish(self._egress.breaker)
            known = await self._others.look(younger_than_s=_FRESH_S, timeout_s=_LOOK_TIMEOUT_S)
            self._note(None)
        except Fault as fault:
            self._note(fault)
        await self._join_or_leave()
        return self._others.healthy or (False if known else None)

    async def _run(self) -> None:
        while True:
            self._wake.clear()
            try:
                await self._update()
                self._note(None)
            except Fault as fault:
                self._note(fault)
            except Exception:
                log.exception("the update of the fleet's state failed")
            try:
                await self._join_or_leave()
                if not self._egress.breaker.closed and self._egress.breaker.remaining_s == 0:
                    if await self._probe():
                        log.info("%s is healthy again", self._egress.name)
                    continue
            except Fault as fault:
                log.warning("the queue group was not left or joined: %s", fault.failure.message)
            except Exception:
                log.exception("the probe failed")
            cooldown_s = self._egress.breaker.remaining_s or self._update_every_s
            until_refresh_s = self._refresh_s - time.monotonic()
            try:
                async with asyncio.timeout(max(0.01, min(until_refresh_s, cooldown_s))):
                    await self._wake.wait()
            except TimeoutError:
                pass

    async def _update(self) -> None:
        """Write this worker's state where that is due, and read that of the others if refused."""
        now_s = time.monotonic()
        emptied = False
        if now_s >= self._refresh_s:
            self._refresh_s = now_s + self._update_every_s * _spread()
            # Another worker holds it if this one was cut off until it expired.
            self._lost = await self._lease.write() is not None
            emptied = self._lease.emptied
        # The worker before this one goes on until its mark is deleted.
        if self._serving is not None or not self._egress.breaker.closed:
            await self._others.publish(self._egress.breaker, emptied=emptied)
        if not self._egress.breaker.closed:
            await self._others.look(younger_than_s=_LOOK_EVERY_S * _spread())

    def _note(self, fault: Fault | None) -> None:
        """Log when the store goes and comes; the bus counts each failure."""
        if fault is not None and self._reachable:
            log.warning("%s The workers do not see each other.", fault.failure.message)
        if fault is None and not self._reachable:
            log.info("the workers see each other again")
        self._reachable = fault is None

    def _others_changed(self) -> None:
        if not self._egress.breaker.closed:
            self._wake.set()

    async def _join_or_leave(self) -> None:
        """Stay out of the queue group while refused, as long as others are healthy. A move goes on
        where who waits for it leaves: half of one would lose calls."""
        if self._moving is None or self._moving.done():
            self._moving = asyncio.get_running_loop().create_task(self._move())
        await asyncio.shield(self._moving)

    async def _move(self) -> None:
        while (serving := self._serving) is not None:
            join = not self._lost and (self._egress.breaker.closed or not self._others.healthy)
            if join == self._joined:
                return
            verb = "joins" if join else "leaves"
            log.info("%s %s the queue group", self._egress.name, verb)
            await (serving.step_in() if join else serving.step_out())
            self._joined = join


def _spread() -> float:
    """A factor, so that many workers do not act at the same time."""
    return random.uniform(0.8, 1.2)  # noqa: S311
