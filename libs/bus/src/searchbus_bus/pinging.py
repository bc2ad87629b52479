"""Tells busy instances from lost ones: a busy one answers a ping, which is outside its limit."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from searchbus_contracts import Fault, Ping, Pong

from . import telemetry
from .bus import Bus

__all__ = ["silent_instances"]

_PINGS = 2
_TIMEOUT_S = 1.0
"""Of a ping, and between two."""
_AT_ONCE = 100


async def silent_instances(bus: Bus, instances: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    """Those of the instances that answer none of two pings, a second apart.

    Args:
        instances: (service, id).
    """
    limit = asyncio.Semaphore(_AT_ONCE)
    silent = list(instances)
    for attempt in range(_PINGS):
        if attempt:
            await asyncio.sleep(_TIMEOUT_S)
        answers = await asyncio.gather(*(_answers(bus, *key, limit) for key in silent))
        silent = [key for key, answered in zip(silent, answers, strict=True) if not answered]
        if not silent:
            break
    return silent


async def _answers(bus: Bus, service: str, identity: str, limit: asyncio.Semaphore) -> bool:
    try:
        async with limit:
            with telemetry.untraced():
                await bus.request(
                    bus.subjects.ping(service, identity),
                    Ping(),
                    Pong,
                    service=service,
                    timeout_s=_TIMEOUT_S,
                )
    except (Fault, ValueError):  # no answer; or an id that no subject can have
        return False
    return True
