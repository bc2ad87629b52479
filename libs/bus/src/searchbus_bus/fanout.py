"""Several requests at once: a reply for each, or the failure that came by the deadline."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from searchbus_contracts import ErrorCode, Failure, Fault

__all__ = ["Gathered", "gather"]


@dataclass(slots=True)
class Gathered:
    """The outcome of a fan-out: every name stands in exactly one of the two."""

    replies: dict[str, Any] = field(default_factory=dict)
    failures: dict[str, Failure] = field(default_factory=dict)


async def gather(sources: Mapping[str, Callable[[], Awaitable[Any]]]) -> Gathered:
    """Call every source at once and wait for all; never raises for the Fault of a source.

    Cancelling the caller cancels every source, and so every worker behind it.
    """
    gathered = Gathered()

    async def run(name: str, source: Callable[[], Awaitable[Any]]) -> None:
        try:
            gathered.replies[name] = await source()
        except Fault as fault:
            gathered.failures[name] = fault.failure

    async with asyncio.TaskGroup() as group:
        for name, source in sources.items():
            group.create_task(run(name, source))
    # In the given order, whichever came first: the caller fuses deterministically.
    gathered.replies = {
        name: gathered.replies[name] for name in sources if name in gathered.replies
    }
    for name in sources:
        if name not in gathered.replies and name not in gathered.failures:
            gathered.failures[name] = Failure(
                code=ErrorCode.INTERNAL,
                message="The request ended without a reply. Report it to the operator.",
            )
    return gathered
