"""Ask several services at once; take what arrived by the deadline and name what did not."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from searchbus_contracts import Actor, ErrorCode, Failure, Fault

__all__ = ["Gathered", "Leg", "gather"]


@dataclass(frozen=True, slots=True)
class Leg:
    """One request of a fan-out. `timeout_s` None gives it the whole budget."""

    subject: str
    message: Any
    reply_type: Any
    service: str
    timeout_s: float | None = None
    actor: Actor | None = None
    idempotent: bool = True


@dataclass(slots=True)
class Gathered:
    """What came back: every leg's name stands in exactly one of the two."""

    replies: dict[str, Any] = field(default_factory=dict)
    failures: dict[str, Failure] = field(default_factory=dict)


async def gather(
    legs: Mapping[str, Leg], *, timeout_s: float, ask: Callable[[Leg, float], Awaitable[Any]]
) -> Gathered:
    """Run every leg by `ask(leg, timeout_s)`, concurrently; never raises for a leg's failure.

    Cancelling the caller cancels every leg, and so every worker behind it.
    """
    gathered = Gathered()

    async def run(name: str, leg: Leg) -> None:
        budget_s = timeout_s if leg.timeout_s is None else min(leg.timeout_s, timeout_s)
        try:
            gathered.replies[name] = await ask(leg, budget_s)
        except Fault as fault:
            gathered.failures[name] = fault.failure

    async with asyncio.TaskGroup() as group:
        for name, leg in legs.items():
            group.create_task(run(name, leg))
    # In the order the legs were given, whichever came first: the caller fuses deterministically.
    gathered.replies = {name: gathered.replies[name] for name in legs if name in gathered.replies}
    for name in legs:
        if name not in gathered.replies and name not in gathered.failures:
            gathered.failures[name] = Failure(
                code=ErrorCode.INTERNAL, message="The leg ended without an answer."
            )
    return gathered
