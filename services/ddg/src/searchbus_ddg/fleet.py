"""One egress for each worker, and who of them answers.

An address belongs to the worker that holds its lease in the shared memory (NATS KV); a worker
without one stands by. A worker whose address is refused steps out of the queue group, so that the
others carry the load, tries a probe when its rest is over, and steps in again. The last one stays:
callers then hear at once that all addresses are refused, and for how long.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Sequence

import msgspec

from searchbus_bus import KeyValue, Serving, end_task
from searchbus_contracts import Fault, decode, encode

from .egress import Egress, egress_id

__all__ = ["LEASE_TTL_S", "Fleet", "claim"]

log = logging.getLogger("searchbus.ddg")

LEASE_TTL_S = 10.0
_LOOK_EVERY_S = 1.0


class _Lease(msgspec.Struct):
    """What the others know of a worker."""

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
    """An egress that nobody has; None while all are taken.

    Without shared memory the worker's number chooses: the first gets the first.
    """
    if leases is None:
        return egresses[index] if index < len(egresses) else None
    order = [*egresses[index % len(egresses) :], *egresses[: index % len(egresses)]]
    for egress in order:
        try:
            if await leases.create(egress_id(egress, place), encode(_Lease(holder))) is not None:
                return egress
        except Fault:
            return egresses[index] if index < len(egresses) else None
    return None


class Fleet:
    """This worker's part in the fleet. Use as an asynchronous context manager.

    Args:
        key: of the address in leases, by `egress_id`.
        probe: asks the upstream something harmless through the egress.
        refusals: the open breakers, remembered longer than a lease, for a restarted worker.
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
        look_every_s: float = _LOOK_EVERY_S,
    ) -> None:
        self._egress = egress
        self._key = key
        self._holder = holder
        self._leases = leases
        self._refusals = refusals
        self._probe = probe
        self._look_every_s = look_every_s
        self._others: dict[str, float] = {}
        self._serving: Serving | None = None
        self._inside = True
        self._lost = False
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
                pass
        self._task = asyncio.get_running_loop().create_task(self._run())
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.release()

    async def release(self) -> None:
        """Give the address back, so that another worker need not wait for the lease's end."""
        await end_task(self._task)
        self._task = None
        if self._leases is not None:
            try:
                held = await self._leases.get(self._key)
                if held is not None and decode(held.value, _Lease).holder == self._holder:
                    await self._leases.delete(self._key)
            except Fault:
                pass

    def attend(self, serving: Serving) -> None:
        """From now on this worker's place in the queue group is looked after."""
        self._serving = serving
        self._wake.set()

    @property
    def others_free(self) -> int:
        """How many other workers' addresses are welcome, as far as is known."""
        return sum(open_until_s == 0.0 for open_until_s in self._others.values())

    @property
    def remaining_s(self) -> float:
        """Seconds until the first address of all is tried again."""
        now_s = time.time()
        ends_s = [self._egress.breaker.open_until_s, *self._others.values()]
        return max(0.0, min(ends_s) - now_s)

    async def leave_to_others(self) -> bool:
        """Step out now if others can carry on; True when a request can be handed to them."""
        await self._look()
        await self._settle()
        return self.others_free > 0

    async def _run(self) -> None:
        while True:
            try:
                await self._look()
                await self._settle()
                if not self._egress.breaker.closed and self._egress.breaker.remaining_s == 0:
                    if await self._probe():
                        log.info("%s is welcome again", self._egress.name)
                    continue
            except Fault as fault:
                log.debug("the fleet could not be looked at: %s", fault.failure.message)
            except Exception:
                log.exception("the fleet could not be looked after")
            self._wake.clear()
            rest_s = self._egress.breaker.remaining_s
            pause_s = min(self._look_every_s, rest_s) if rest_s else self._look_every_s
            try:
                async with asyncio.timeout(max(0.01, pause_s)):
                    await self._wake.wait()
            except TimeoutError:
                pass

    async def _look(self) -> None:
        """Tell the others how we are, and learn how they are."""
        if self._leases is None:
            return
        open_until_s = self._egress.breaker.open_until_s
        lease = encode(_Lease(self._holder, open_until_s))
        try:
            held = await self._leases.get(self._key)
            if held is not None and decode(held.value, _Lease).holder != self._holder:
                # We were away for longer than the lease, and the address is another's now.
                self._lost = True
                return
            self._lost = False
            await self._leases.put(self._key, lease)
            if open_until_s and self._refusals is not None:
                await self._refusals.put(self._key, lease)
            others: dict[str, float] = {}
            for key in await self._leases.keys():
                entry = await self._leases.get(key) if key != self._key else None
                if entry is not None:
                    others[key] = decode(entry.value, _Lease).open_until_s
            self._others = others
        except Fault:
            self._others = {}

    async def _settle(self) -> None:
        """Out while refused and others are free; else in."""
        serving = self._serving
        if serving is None:
            return
        inside = not self._lost and (self._egress.breaker.closed or self.others_free == 0)
        if inside != self._inside:
            self._inside = inside
            log.info("%s steps %s", self._egress.name, "in" if inside else "out")
            await (serving.step_in() if inside else serving.step_out())
