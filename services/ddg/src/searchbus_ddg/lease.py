"""Leases of egress addresses: an address belongs to the worker that holds its lease."""

from __future__ import annotations

import logging
from collections.abc import Sequence

import msgspec

from searchbus_bus import KeyValue
from searchbus_bus.store.lease import Lease
from searchbus_contracts import Fault, encode

from .egress import egress_id

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


def lease_of(leases: KeyValue, key: str, holder: str) -> Lease:
    """The lease of an address by its `egress_id`, which `claim` found free for the same holder."""
    return Lease(leases, key, encode(_Holder(holder)))
