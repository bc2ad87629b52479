"""Waiting for a condition."""

from __future__ import annotations

import pytest

from searchbus_testing import eventually, until


async def test_until_returns_the_first_true_result():
    """Of a function and of a coroutine function."""
    values = iter([0, "", 7])

    async def later() -> list[int]:
        return [1]

    assert await until(lambda: next(values), interval_s=0.001) == 7
    assert await until(later) == [1]


async def test_until_fails_with_the_limit_and_the_message():
    """A message may be a function, which is called when the wait has failed."""
    with pytest.raises(AssertionError, match=r"not true within 0 s\. the log"):
        await until(lambda: False, timeout_s=0.01, message=lambda: "the log")


def test_eventually_waits_without_an_event_loop():
    """It returns and fails as `until` does."""
    values = iter([None, 3])
    assert eventually(lambda: next(values), interval_s=0.001) == 3
    with pytest.raises(AssertionError, match="not true within 0 s"):
        eventually(lambda: False, timeout_s=0.01)


async def test_error_of_the_condition_is_not_hidden():
    """A condition that raises ends the wait."""
    with pytest.raises(ZeroDivisionError):
        await until(lambda: 1 / 0)
