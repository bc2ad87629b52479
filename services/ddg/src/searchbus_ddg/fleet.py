"""The fleet of workers: one egress address each, and which of them are in the queue group.

An address belongs to the worker that holds its lease in the key-value store; surplus workers stay
on standby. A worker whose address is refused leaves the queue group, so that the others carry the
load, sends a probe when the cooldown ends, and joins again after a success. The last worker stays:
calls then fail immediately, with the time until the first probe.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import Awaitable, Callable, Sequence

import msgspec

from searchbus_bus import KeyValue, Serving, end_task
from searchbus_contracts import Fault, decode, encode

from .egress import Egress, egress_id

__all__ = ["LEASE_TTL_S", "Fleet", "claim"]

log = logging.getLogger("searchbus.ddg")

LEASE_TTL_S = 10.0
_UPDATE_EVERY_S = 1.0


class _Lease(msgspec.Struct):
    """The state of a worker, for the others."""

    holder: str
    open_until_s: float = 0.0


async def claim(
    leases: KeyValue | None,
    egresses: Sequence[str],
    holder: str,
    *,
    index: int,
    place: str = "",
) -> str | None:
    """Take the lease of a free egress; `None` while all are taken.

    Without a key-value store the worker's number chooses: worker 0 gets the first egress.

    Args:
        holder: identifies this worker in the lease.
        index: the worker's number, where the search for a free egress starts.
        place: see `egress_id`.
    """
    if leases is None:
        return egresses[index] if index < len(egresses) else None
    start = index % len(egresses)
    for egress in [*egresses[start:], *egresses[:start]]:
        try:
            if await leases.create(egress_id(egress, place), encode(_Lease(holder))) is not None:
                return egress
        except Fault:
            return egresses[index] if index < len(egresses) else None
    return None


class Fleet:
    """This worker's membership. Use as an asynchronous context manager.

    Args:
        key: of the address in leases, by `egress_id`.
        leases: of all workers; None: this worker is alone.
        refusals: open breakers, kept longer than a lease, for a restarted worker.
        probe: sends a harmless request through the egress; True where it succeeded.
        update_every_s: between two updates of the lease.
    """

    def __init__(
        self,
        egress: Egress,
        key: str,
        holder: str,
        leases: KeyValue | None,
        refusals: KeyValue | None,
        probe: Callable[[], Awaitable[bool]],
        *,
        update_every_s: float = _UPDATE_EVERY_S,
    ) -> None:
        self._egress = egress
        self._key = key
        self._holder = holder
        self._leases = leases
        self._refusals = refusals
        self._probe = probe
        self._update_every_s = update_every_s
        self._others: list[float] = []
        self._serving: Serving | None = None
        self._joined = True
        self._lease_lost = False
        self._wake = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        egress.on_refused = self._wake.set

    async def __aenter__(self) -> Fleet:
        if self._refusals is not None:
            try:
                known = await self._refusals.get(self._key)
                if known is not None:
                    self._egress.breaker.restore(decode(known.value, _Lease).open_until_s)
            except Fault:
                pass  # the first refusal opens the breaker again
        self._task = asyncio.get_running_loop().create_task(self._run())
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.release()

    async def release(self) -> None:
        """Delete the lease, so that a worker on standby need not wait until it expires."""
        await end_task(self._task)
        self._task = None
        if self._leases is not None:
            try:
                held = await self._leases.get(self._key)
                if held is not None and decode(held.value, _Lease).holder == self._holder:
                    await self._leases.delete(self._key)
            except Fault:
                pass  # it expires

    def manage(self, serving: Serving) -> None:
        """From now on join and leave the queue group of this serving."""
        self._serving = serving
        self._wake.set()

    @property
    def healthy_other(self) -> bool:
        """Whether the address of another worker was not refused, at the last look."""
        return 0.0 in self._others

    @property
    def remaining_s(self) -> float:
        """Seconds until the first address of the fleet is probed."""
        ends_s = [self._egress.breaker.open_until_s, *self._others]
        return max(0.0, min(ends_s) - time.time())

    async def leave_to_others(self) -> bool:
        """Leave the queue group now; True where a healthy worker can take the request."""
        await self._update(look=True)
        await self._join_or_leave()
        return self.healthy_other

    async def _run(self) -> None:
        while True:
            try:
                await self._update(look=not self._egress.breaker.closed)
                await self._join_or_leave()
                if not self._egress.breaker.closed and self._egress.breaker.remaining_s == 0:
                    if await self._probe():
                        log.info("%s is healthy again", self._egress.name)
                    continue
            except Fault as fault:
                log.debug("the fleet's state is not available: %s", fault.failure.message)
            except Exception:
                log.exception("the update of the fleet's state failed")
            self._wake.clear()
            cooldown_s = self._egress.breaker.remaining_s or self._update_every_s
            try:
                async with asyncio.timeout(max(0.01, min(self._update_every_s, cooldown_s))):
                    await self._wake.wait()
            except TimeoutError:
                pass

    async def _update(self, *, look: bool) -> None:
        """Write this worker's state.

        Args:
            look: read that of the others as well, which only a refused worker needs.
        """
        if self._leases is None:
            return
        open_until_s = self._egress.breaker.open_until_s
        lease = encode(_Lease(self._holder, open_until_s))
        try:
            held = await self._leases.get(self._key)
            if held is not None and decode(held.value, _Lease).holder != self._holder:
                # This worker was cut off until its lease expired; another one took the address.
                self._lease_lost = True
                return
            self._lease_lost = False
            await self._leases.put(self._key, lease)
            refused = open_until_s and not self._egress.breaker.suspected
            if refused and self._refusals is not None:
                await self._refusals.put(self._key, lease)
            if look:
                self._others = await self._look(self._leases)
        except Fault:
            self._others = []

    async def _look(self, leases: KeyValue) -> list[float]:
        """When the others' cooldowns end, up to the first healthy worker.

        In a random order: a large fleet would otherwise read one lease a thousand times.
        """
        keys = [key for key in await leases.keys() if key != self._key]
        random.shuffle(keys)
        found: list[float] = []
        for key in keys:
            entry = await leases.get(key)
            if entry is not None:
                found.append(decode(entry.value, _Lease).open_until_s)
                if found[-1] == 0.0:
                    break
        return found

    async def _join_or_leave(self) -> None:
        """Stay out of the queue group while refused, as long as others are healthy."""
        serving = self._serving
        if serving is None:
            return
        join = not self._lease_lost and (self._egress.breaker.closed or not self.healthy_other)
        if join != self._joined:
            self._joined = join
            verb = "joins" if join else "leaves"
            log.info("%s %s the queue group", self._egress.name, verb)
            await (serving.step_in() if join else serving.step_out())
