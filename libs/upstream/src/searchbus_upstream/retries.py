"""Retries in one place: with jitter, in the caller's time, never more than a tenth extra."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import TypeVar

from searchbus_contracts import Fault

__all__ = ["RetryBudget", "with_retries"]

T = TypeVar("T")
_BASE_S = 0.25


class RetryBudget:
    """A token for every ten requests; a storm of failures runs out of them (Finagle's budget)."""

    def __init__(self, *, share: float = 0.1, most: float = 10.0) -> None:
        self._share = share
        self._most = most
        self._tokens = most / 2

    def request(self) -> None:
        """One request was made."""
        self._tokens = min(self._most, self._tokens + self._share)

    def take(self) -> bool:
        """Whether one retry is allowed."""
        if self._tokens < 1:
            return False
        self._tokens -= 1
        return True


async def with_retries(
    attempt: Callable[[float], Awaitable[T]],
    *,
    timeout_s: float,
    budget: RetryBudget,
    attempts: int = 3,
) -> T:
    """Run `attempt(seconds left)` until it succeeds or its Fault is not to be repeated.

    A failure's retry_after_ms is kept; where that is beyond the time left, it is raised at once.
    """
    loop = asyncio.get_running_loop()
    end_s = loop.time() + timeout_s
    for number in range(1, attempts + 1):
        budget.request()
        try:
            return await attempt(max(0.001, end_s - loop.time()))
        except Fault as fault:
            failure = fault.failure
            # Full jitter (Brooker 2015).
            pause_s = random.uniform(0, _BASE_S * 2**number)  # noqa: S311
            pause_s = max(pause_s, (failure.retry_after_ms or 0) / 1000)
            late = loop.time() + pause_s >= end_s - 0.05
            if not failure.retryable or number == attempts or late or not budget.take():
                raise
            await asyncio.sleep(pause_s)
    raise AssertionError("unreachable")
