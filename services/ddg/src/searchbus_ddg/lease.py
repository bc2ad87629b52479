"""Leases of egress addresses: an address belongs to the worker that holds its lease."""

from __future__ import annotations

import logging
from collections.abc import Sequence

import msgspec

from searchbus_bus import KeyValue
from searchbus_bus.store.keyvalue import Entry
from searchbus_contracts import Fault, decode, encode

from .egress import egress_id

__all__ = ["LEASE_TTL_S", "Lease", "claim"]

log = logging.getLogger("searchbus.ddg")

LEASE_TTL_S = 10.0


class _Holder(msgspec.Struct):
    holder: str


async def claim(
    leases: KeyValue, egresses: Sequence[str], holder: str, *, index: int, place: str = ""
) -> str | None:
    """Take the lease of a free egress; `None` while all are taken.

    While the key-value store is unreachable the worker's number chooses: worker 0 gets the first.

    Args:
        holder: identifies this worker in the lease.
        index: the worker's number, where the search for a free egress starts.
        place: see `egress_id`.
    """
    start = index % len(egresses)
    try:
        taken = set(await leases.keys())
        for egress in [*egresses[start:], *egresses[:start]]:
            key = egress_id(egress, place)
            if key not in taken and await leases.create(key, encode(_Holder(holder))) is not None:
                return egress
    except Fault as fault:
        log.warning("%s The worker's number chooses its egress.", fault.failure.message)
        return egresses[index] if index < len(egresses) else None
    return None


class Lease:
    """The lease of this worker's address, written again before it expires.

    Args:
        key: of the address, by `egress_id`.
        holder: as in `claim`.
    """

    def __init__(self, leases: KeyValue, key: str, holder: str) -> None:
        self._leases = leases
        self._key = key
        self._holder = holder
        self._value = encode(_Holder(holder))
        self._revision: int | None = None
        self.lost = False
        """Whether another worker holds it: this one was cut off until it expired."""

    async def refresh(self) -> bool:
        """Write it again: one request, unless it was lost or the store was emptied.

        Returns:
            Whether there was none any more, as after a restart of NATS.

        Raises:
            Fault: the store is unreachable.
        """
        missing = False
        if self._revision is not None:
            self._revision = await self._leases.update(self._key, self._value, self._revision)
        if self._revision is None:
            held = await self._leases.get(self._key)
            missing = held is None
            self._revision = await self._take(held)
        self.lost = self._revision is None
        return missing

    async def release(self) -> None:
        """Delete it, so that a worker on standby need not wait until it expires."""
        try:
            held = await self._leases.get(self._key)
            if held is not None and self._is_mine(held.value):
                await self._leases.delete(self._key)
        except Fault as fault:
            log.info("the lease was not released and expires: %s", fault.failure.message)

    async def _take(self, held: Entry | None) -> int | None:
        if held is None:
            return await self._leases.create(self._key, self._value)
        if not self._is_mine(held.value):
            return None
        return await self._leases.update(self._key, self._value, held.revision)

    def _is_mine(self, value: bytes) -> bool:
        return decode(value, _Holder).holder == self._holder
