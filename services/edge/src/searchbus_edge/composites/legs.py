"""Several questions at once, each with its share of the deadline."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from searchbus_bus import Gathered
from searchbus_bus.fanout import gather
from searchbus_contracts import ErrorCode, Failure, Fault

__all__ = ["Run", "ask_all", "worst_of"]

SHARE = 0.85
"""Of the caller's time for the legs: the rest is for putting the answer together."""
Run = Callable[[float], Awaitable[Any]]


async def ask_all(legs: Mapping[str, Run], *, timeout_s: float) -> Gathered:
    """Run every leg by `run(seconds)`; cancelling this cancels them all.

    A leg's Fault, and an answer that cannot be understood, end that leg only.
    """

    def guarded(run: Run) -> Callable[[], Awaitable[Any]]:
        async def guard() -> Any:
            try:
                return await run(timeout_s * SHARE)
            except (ValueError, TypeError, KeyError, AttributeError):
                raise Fault(ErrorCode.INTERNAL, "Its answer could not be understood.") from None

        return guard

    return await gather({name: guarded(run) for name, run in legs.items()})


def worst_of(failures: Mapping[str, Failure]) -> Fault:
    """One failure that speaks for all, where every leg failed."""
    chosen = min(failures.values(), key=lambda f: (not f.retryable, f.retry_after_ms or 0, f.code))
    every = "; ".join(f"{name}: {f.message}" for name, f in failures.items())
    code = chosen.code if chosen.code != ErrorCode.INTERNAL else ErrorCode.UPSTREAM_FAILED
    return Fault(
        code, f"Every source failed. {every}", retryable=chosen.retryable,
        retry_after_ms=chosen.retry_after_ms,
    )  # fmt: skip
