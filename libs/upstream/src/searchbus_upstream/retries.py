"""Retries with jitter, within the caller's time and a budget of extra requests; Retry-After."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import TypeVar

from searchbus_contracts import Fault

T = TypeVar("T")
_BASE_S = 0.25
_MARGIN_S = 0.05
"""A retry that would start this close to the deadline is not made."""
_MOST_S = 86_400.0

_SHARE = 0.1
"""Tokens earned by each request: one retry per ten requests."""
_MAX_TOKENS = 10.0
"""Saved up at most; half of them are there at the start."""


class OnceError(Fault):
    """A failure after which `with_retries` sends no second request, though its caller may: the
    upstream may have done the work."""


class RetryBudget:
    """Tokens for retries, so that failing upstreams do not get many extra requests (Finagle)."""

    def __init__(self) -> None:
        self._tokens = _MAX_TOKENS / 2

    def request(self) -> None:
        """Record a request."""
        self._tokens = min(_MAX_TOKENS, self._tokens + _SHARE)

    def take(self) -> bool:
        """Take a token for one retry; False where none is left."""
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
    """Run `attempt(seconds left)` until it succeeds.

    The pause before a retry is random (full jitter, Brooker 2015) and at least the failure's
    retry_after_ms.

    Args:
        timeout_s: for all attempts and the pauses between them.
        attempts: at most this many, the first included.

    Raises:
        Fault: of the last attempt; at once where it is not retryable or an `OnceError`, the budget
            is used up, or the retry would come after the deadline.
    """
    loop = asyncio.get_running_loop()
    end_s = loop.time() + timeout_s
    for number in range(1, attempts + 1):
        budget.request()
        try:
            return await attempt(max(0.001, end_s - loop.time()))
        except Fault as fault:
            failure = fault.failure
            pause_s = random.uniform(0, _BASE_S * 2**number)  # noqa: S311
            pause_s = max(pause_s, (failure.retry_after_ms or 0) / 1000)
            late = loop.time() + pause_s >= end_s - _MARGIN_S
            once = isinstance(fault, OnceError) or not failure.retryable
            if once or number == attempts or late or not budget.take():
                raise
            await asyncio.sleep(pause_s)
    raise AssertionError("unreachable")


def retry_after_s(headers: Mapping[str, str]) -> float | None:
    """Seconds of the Retry-After header (RFC 9110, 10.2.3), a number or a date, by names in lower
    case; at most a day, `None` where it is missing or invalid."""
    value = headers.get("retry-after", "").strip()
    if value.isascii() and value.isdigit():
        return min(_MOST_S, float(value))
    try:
        then = parsedate_to_datetime(value)
    except (ValueError, TypeError, OverflowError):
        return None
    then = then if then.tzinfo else then.replace(tzinfo=UTC)
    return min(_MOST_S, max(0.0, (then - datetime.now(UTC)).total_seconds()))
