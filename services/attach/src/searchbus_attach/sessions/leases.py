"""Which worker has the session of a caller: an entry of the key-value store, held by one worker.

    leases = await Leases.over(bus)
    leases.start(serving.instance)
    lease = await leases.take(key, on_lost)     # a Holder: another worker has it
    await leases.release(lease)                 # after the session's end

A key stands for a server and a caller, the value is the instance of the worker. Entries expire; a
worker writes its own again a third of that time after the last write. So a lease that was written
lately is valid without asking the store. While the store is unreachable a worker opens sessions
without a lease, and makes the leases once the store is back; where another worker holds one by
then, it has lost the session.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import time
import weakref
from collections.abc import Callable
from dataclasses import dataclass

from searchbus_bus import NEEDED_TIMEOUT_S, Bus, KeyValue, end_task
from searchbus_bus.store.lease import Lease as StoredLease
from searchbus_contracts import Fault

log = logging.getLogger("searchbus.attach")

LEASE_TTL_S = 30.0
_BUCKET = "attach_sessions"
_MAX_BYTES = 16 * 2**20
"""About 80,000 entries."""
_LOOKS = 30
"""Into which a worker divides the time to live, to find the leases that are due."""
_AT_ONCE = 64


def lease_key(server: str, caller: str) -> str:
    """The key for a server's session of a caller."""
    return hashlib.sha256(f"{server}\n{caller}".encode("utf-8", "replace")).hexdigest()


@dataclass(frozen=True, slots=True)
class Holder:
    """Another worker that holds a key, by an entry of this revision."""

    instance: str
    revision: int


@dataclass(slots=True, eq=False)
class SessionLease:
    """A key that this worker holds, or wants to hold once the store is back.

    Attributes:
        on_lost: called, with the lease, when another worker holds the key.
        entry: the entry of the store.
        until_s: it is surely valid until then, on the clock of `Leases`.
    """

    key: str
    on_lost: Callable[[SessionLease], None]
    entry: StoredLease
    until_s: float = 0.0


class Leases:
    """The leases of this worker. Operations on one key wait for each other.

    Args:
        ttl_s: how long an entry of the store lives.
        clock: seconds.
    """

    def __init__(
        self,
        store: KeyValue,
        *,
        ttl_s: float = LEASE_TTL_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._store = store
        self._ttl_s = ttl_s
        self._clock = clock
        self._instance = b""
        self._started = asyncio.Event()
        self._held: dict[str, SessionLease] = {}
        self._locks: weakref.WeakValueDictionary[str, asyncio.Lock] = weakref.WeakValueDictionary()
        self._task: asyncio.Task[None] | None = None

    @classmethod
    async def over(cls, bus: Bus) -> Leases:
        """Leases in the bucket that all workers of this bus share."""
        store = await bus.key_value(
            _BUCKET, ttl_s=LEASE_TTL_S, max_bytes=_MAX_BYTES, timeout_s=NEEDED_TIMEOUT_S
        )
        leases = cls(store)
        bus.transport.on_disconnect(leases.renew_soon)
        return leases

    def start(self, instance: str) -> None:
        """Hold leases of this worker (`instance`, to which others send requests) from now on;
        `take` waits for this."""
        self._instance = instance.encode()
        self._started.set()
        self._task = asyncio.get_running_loop().create_task(self._keep())

    async def stop(self) -> None:
        """Write no lease again; what was not released expires."""
        await end_task(self._task)

    def is_valid(self, lease: SessionLease) -> bool:
        """Whether surely no other worker holds the key."""
        return self._clock() < lease.until_s

    def renew_soon(self) -> None:
        """Write all leases at the next look: after a lost connection the store may be empty."""
        for lease in self._held.values():
            lease.until_s = min(lease.until_s, self._clock() + self._ttl_s / 2)

    async def take(
        self, key: str, on_lost: Callable[[SessionLease], None]
    ) -> SessionLease | Holder:
        """The lease of a key, in the place of one that this worker has; or who holds it.

        Without the store the lease is not valid, and is made later.
        """
        await self._started.wait()
        async with self._lock(key):
            before = self._held.get(key)
            if before is None:
                lease = SessionLease(key, on_lost, StoredLease(self._store, key, self._instance))
            else:
                lease = SessionLease(key, on_lost, before.entry, before.until_s)
            if not self.is_valid(lease):
                try:
                    holder = await self._write(lease)
                except Fault as fault:
                    log.debug("a lease cannot be written: %s", fault)
                else:
                    if holder is not None:
                        self._lose(before)
                        return holder
            self._held[key] = lease
            return lease

    async def take_over(
        self, key: str, holder: Holder, on_lost: Callable[[SessionLease], None]
    ) -> SessionLease | None:
        """The lease of a key whose holder has left the bus; None where another was first.

        Raises:
            Fault: the store is unreachable.
        """
        async with self._lock(key):
            entry = StoredLease(self._store, key, self._instance, revision=holder.revision)
            lease = SessionLease(key, on_lost, entry)
            if await self._write(lease) is not None:
                return None
            self._held[key] = lease
            return lease

    async def release(self, lease: SessionLease) -> None:
        """Let another worker take the key, unless a later lease took the place of this one."""
        async with self._lock(lease.key):
            if self._held.get(lease.key) is not lease:
                return
            del self._held[lease.key]
            await lease.entry.release()

    async def renew(self) -> None:
        """Write the leases that are due: those that were not written for a third of their time.

        Raises:
            Fault: the store is unreachable; the others are left for the next time.
        """
        due_s = self._clock() + self._ttl_s * 2 / 3
        due = [lease for lease in self._held.values() if lease.until_s <= due_s]
        for lease in due[:1]:  # alone: it says whether the store is there
            await self._renew(lease)
        for first in range(1, len(due), _AT_ONCE):
            some = due[first : first + _AT_ONCE]
            await asyncio.gather(*(self._renew(lease) for lease in some))

    async def _keep(self) -> None:
        while True:
            await asyncio.sleep(self._ttl_s / _LOOKS)
            try:
                await self.renew()
            except Fault as fault:
                log.debug("the leases cannot be written: %s", fault)
            except Exception:
                log.exception("the leases could not be written")

    async def _renew(self, lease: SessionLease) -> None:
        async with self._lock(lease.key):
            if self._held.get(lease.key) is lease and await self._write(lease) is not None:
                self._lose(lease)

    def _lose(self, lease: SessionLease | None) -> None:
        if lease is not None:
            del self._held[lease.key]
            lease.on_lost(lease)

    async def _write(self, lease: SessionLease) -> Holder | None:
        """Write an entry, first or again; who holds it instead.

        Raises:
            Fault: the store is unreachable.
        """
        sent_s = self._clock()
        other = await lease.entry.write()
        if other is not None:
            return Holder(other.value.decode("ascii", "replace"), other.revision)
        lease.until_s = sent_s + self._ttl_s
        return None

    def _lock(self, key: str) -> asyncio.Lock:
        return self._locks.setdefault(key, asyncio.Lock())
