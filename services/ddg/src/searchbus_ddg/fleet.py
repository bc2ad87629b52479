"""The fleet of workers: one egress address each, and which of them are in the queue group.

An address belongs to the worker that holds its lease (lease.py); surplus workers stay on standby. A
worker whose address is refused leaves the queue group, so that the others carry the load, sends a
probe when the cooldown ends, and joins again after a success. The last worker stays: calls then
fail immediately, with the time until the first probe.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import Awaitable, Callable

from searchbus_bus import KeyValue, Serving, end_task
from searchbus_contracts import Fault

from .egress import Egress
from .lease import lease_of
from .others import Others

__all__ = ["Fleet"]

log = logging.getLogger("searchbus.ddg")

_UPDATE_EVERY_S = 2.0
_LOOK_EVERY_S = 3.0
_FRESH_S = 1.0
"""A request that is refused looks for other workers unless the last look is younger."""
_LOOK_TIMEOUT_S = 0.1
"""What such a request may lose by it."""


class Fleet:
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
        self._lease = lease_of(leases, key, holder)
        self._lost = False
        self._others = Others(
            key, leases, refusals, on_change=self._others_changed, clock=time.time
        )
        self._probe = probe
        self._update_every_s = update_every_s
        self._refresh_s = 0.0
        self._serving: Serving | None = None
        self._joined = True
        self._reachable = True
        self._wake = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        egress.on_refused = self._wake.set

    async def __aenter__(self) -> Fleet:
        await self._others.start(self._egress.breaker)
        self._task = asyncio.get_running_loop().create_task(self._run())
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.release()

    async def release(self) -> None:
        """End the membership, once: the lease is free for a worker on standby."""
        task, self._task = self._task, None
        if task is None:
            return
        await end_task(task)
        await self._others.close()
        if self._lost:
            return
        try:
            # First, since the next holder of the lease takes it back.
            await self._others.leave(self._egress.breaker)
        except Fault as fault:
            log.info("the others see later that this worker left: %s", fault.failure.message)
        await self._lease.release()

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
        if now_s >= self._refresh_s:
            self._refresh_s = now_s + self._update_every_s * _spread()
            # Another worker holds it if this one was cut off until it expired.
            self._lost = await self._lease.write() is not None
            await self._others.publish(self._egress.breaker, emptied=self._lease.emptied)
        await self._others.publish(self._egress.breaker)
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
        """Stay out of the queue group while refused, as long as others are healthy."""
        serving = self._serving
        if serving is None:
            return
        join = not self._lost and (self._egress.breaker.closed or not self._others.healthy)
        if join != self._joined:
            self._joined = join
            verb = "joins" if join else "leaves"
            log.info("%s %s the queue group", self._egress.name, verb)
            await (serving.step_in() if join else serving.step_out())


def _spread() -> float:
    """A factor, so that many workers do not act at the same time."""
    return random.uniform(0.8, 1.2)  # noqa: S311
