"""Work on several things at once, one progress event for each that is done."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from searchbus_bus import Call

T = TypeVar("T")
OnDone = Callable[[str], Awaitable[None]]
"""Awaited with the name of what is done."""
_MAX_NAME_CHARS = 200


async def each_reported(
    works: Sequence[tuple[str, Awaitable[T]]], on_done: OnDone | None
) -> list[T | BaseException]:
    """Run named works at once, `on_done` after each; their results and exceptions, in order."""

    async def run(name: str, work: Awaitable[T]) -> T:
        (outcome,) = await asyncio.gather(work, return_exceptions=True)
        if on_done is not None:
            await on_done(name)
        return raised(outcome)

    return await asyncio.gather(*(run(*work) for work in works), return_exceptions=True)


def raised(outcome: T | BaseException) -> T:
    """The result; raises where there is an exception in its place."""
    if isinstance(outcome, BaseException):
        raise outcome
    return outcome


def reporting(call: Call, total: int, verb: str) -> OnDone:
    """Report to the caller how many of `total` are done, and which was the last."""
    done = 0

    async def report(name: str) -> None:
        nonlocal done
        done += 1
        await call.progress(done, total, f"{verb} {name[:_MAX_NAME_CHARS]}")

    return report
