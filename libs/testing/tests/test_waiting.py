"""Waiting for a condition."""

from __future__ import annotations

import re
import signal

import pytest

from searchbus_testing import eventually, until
from searchbus_testing.waiting import work_ends


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


def test_work_gets_a_text_of_the_size_and_its_end():
    texts: list[str] = []
    work_ends(texts.append, "abc", size=7, end="!")
    assert texts == ["abcabca!"]


def test_work_without_end_is_given_up_also_inside_a_pattern():
    """This one tries each way to divide the text: more than there are atoms."""
    before = signal.getsignal(signal.SIGALRM)
    with pytest.raises(AssertionError, match="no end is near"):
        work_ends(re.compile("(a+)+$").match, "a", size=1000, end="b", give_up_s=0.2)
    assert signal.getsignal(signal.SIGALRM) is before
    assert signal.getitimer(signal.ITIMER_REAL)[0] == 0
