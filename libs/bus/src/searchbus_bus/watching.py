"""Finds out whether the worker of a silent request is gone, long before the request's deadline.

A worker that has not replied after `ACK_AFTER_MS` acknowledges the request with its instance id. A
request that has been silent for a second is watched:

| acknowledged | the ping | then |
| --- | --- | --- |
| by an instance | it answers | wait |
| | no responders, twice | the request is lost |
| | no answer | ask another instance, if the request may be repeated |
| by none | some instance does not answer or is gone | the same |
| | all answer | the request is lost: whoever had it would have acknowledged it |
"""

from __future__ import annotations

import asyncio

from searchbus_contracts import ErrorCode, Fault

from .fleet import Fleet, State
from .pending import Failed, Pending

__all__ = ["ACK_AFTER_MS", "watch"]

ACK_AFTER_MS = 200
CHECK_EVERY_S = 1.0
CONFIRM_S = 0.3
"""A worker that lost its own connection is back after this time."""
LATE_ACK_S = 0.5
"""A worker that was busy acknowledges after this time, at the latest, once it answers a ping."""


async def watch(
    pending: Pending, fleet: Fleet, service: str, *, may_repeat: bool, only: str = ""
) -> None:
    """End an attempt with `worker_lost` once that is known; runs beside it.

    Args:
        may_repeat: whether the request may be sent again.
        only: the one instance that can have it; empty where any can.
    """
    while not pending.outcome.done():
        if await _is_lost(pending, fleet, service, may_repeat=may_repeat, only=only):
            message = f"The {service} worker that had the request is gone."
            fault = Fault(ErrorCode.UNAVAILABLE, message)
            pending.end(Failed(fault, "worker_lost", pending.instance))
            return
        await asyncio.sleep(CHECK_EVERY_S)


async def _is_lost(
    pending: Pending, fleet: Fleet, service: str, *, may_repeat: bool, only: str
) -> bool:
    instance = pending.instance or only
    if instance:
        return await _has_left(instance, fleet, service, may_repeat=may_repeat)
    if not fleet.known(service):
        return False
    states = await fleet.probe(service)
    if pending.instance or State.UNKNOWN in states:
        return False
    if may_repeat and states != {State.ALIVE} and fleet.pick(service) is not None:
        return True
    if State.SILENT in states:
        return False  # it may have the request
    await asyncio.sleep(LATE_ACK_S)
    return not pending.instance and (may_repeat or fleet.complete(service))


async def _has_left(instance: str, fleet: Fleet, service: str, *, may_repeat: bool) -> bool:
    fleet.heard(service, instance)
    state = await fleet.check(service, instance)
    if state is State.GONE:
        await asyncio.sleep(CONFIRM_S)
        return await fleet.check(service, instance) is State.GONE
    if state is not State.SILENT or not may_repeat:
        return False
    # Others may be behind the same server or on the same machine: the next attempt avoids them too.
    await fleet.probe(service)
    return fleet.pick(service, avoid={instance}) is not None
