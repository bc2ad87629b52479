"""Retries within a time and a budget."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest

from searchbus_contracts import ErrorCode, Fault
from searchbus_upstream import OnceError, RetryBudget, retry_after_s, with_retries


class Attempts:
    """Raises the given faults in turn, then returns "done"."""

    def __init__(self, *faults: Fault) -> None:
        self.faults = list(faults)
        self.times_left_s: list[float] = []

    async def __call__(self, left_s: float) -> str:
        self.times_left_s.append(left_s)
        if self.faults:
            raise self.faults.pop(0)
        return "done"


def failure(*, retryable: bool = True, retry_after_ms: int | None = None) -> Fault:
    return Fault(
        ErrorCode.UPSTREAM_FAILED, "down", retryable=retryable, retry_after_ms=retry_after_ms
    )


@pytest.fixture(autouse=True)
def pauses(monkeypatch):
    """Replace the pauses by a record of them."""
    slept = []

    async def sleep(seconds, _sleep=asyncio.sleep):
        slept.append(seconds)
        await _sleep(0)

    monkeypatch.setattr("searchbus_upstream.retries.asyncio.sleep", sleep)
    return slept


async def test_retryable_failures_are_repeated_within_the_time(pauses):
    """With a random pause; each attempt gets the time that is left."""
    attempts = Attempts(failure(), failure())
    assert await with_retries(attempts, timeout_s=60, budget=RetryBudget()) == "done"
    assert len(attempts.times_left_s) == 3
    assert attempts.times_left_s == sorted(attempts.times_left_s, reverse=True)
    assert len(pauses) == 2
    assert all(0 <= pause_s <= 1 for pause_s in pauses)


async def test_number_of_attempts_is_limited():
    """The last failure is raised."""
    attempts = Attempts(*(failure() for _ in range(9)))
    with pytest.raises(Fault):
        await with_retries(attempts, timeout_s=60, budget=RetryBudget(), attempts=3)
    assert len(attempts.times_left_s) == 3


async def test_other_failures_are_raised_at_once():
    """Those that are not retryable, whose retry would come too late, or after the work was done."""
    once = OnceError.of(failure().failure)
    for fault in (failure(retryable=False), failure(retry_after_ms=70_000), once):
        attempts = Attempts(fault)
        with pytest.raises(Fault):
            await with_retries(attempts, timeout_s=60, budget=RetryBudget())
        assert len(attempts.times_left_s) == 1


async def test_retry_after_is_the_shortest_pause(pauses):
    """The upstream asked for it."""
    attempts = Attempts(failure(retry_after_ms=5000))
    assert await with_retries(attempts, timeout_s=60, budget=RetryBudget()) == "done"
    assert pauses == [5.0]


async def test_budget_ends_the_retries_of_a_failing_upstream():
    """Five retries are saved up; then each ten requests earn one."""
    budget = RetryBudget()
    sent = 0
    for _ in range(100):
        attempts = Attempts(*(failure() for _ in range(3)))
        with pytest.raises(Fault):
            await with_retries(attempts, timeout_s=60, budget=budget)
        sent += len(attempts.times_left_s)
    assert 105 <= sent <= 100 + 5 + 12


def test_retry_after_in_both_forms():
    """Seconds or a date."""
    assert retry_after_s({"retry-after": "7"}) == 7.0
    assert retry_after_s({"retry-after": "Wed, 21 Oct 2015 07:28:00 GMT"}) == 0.0
    assert retry_after_s({"retry-after": "soon"}) is None
    assert retry_after_s({"retry-after": "²"}) is None
    assert retry_after_s({"retry-after": f"Wed, 21 Oct {'9' * 20} 07:28:00 GMT"}) is None
    assert retry_after_s({}) is None


def test_retry_after_of_a_future_date_is_the_time_until_then():
    """In seconds from now."""
    then = datetime.now(UTC) + timedelta(seconds=100)
    assert 90 < retry_after_s({"retry-after": format_datetime(then)}) <= 100


@pytest.mark.parametrize("value", ["9" * 400, "9" * 5000, "Fri, 31 Dec 9999 23:59:59 GMT"])
def test_retry_after_is_a_day_at_most(value):
    """No answer of an upstream stops it for years."""
    assert retry_after_s({"retry-after": value}) == 86_400.0
