"""Waiting for a condition, with a limit that only ends a test that hangs; work that ends."""

from __future__ import annotations

import inspect
import signal
import time
from asyncio import sleep
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from searchbus_contracts import Fault

T = TypeVar("T")
TIMEOUT_S = 60.0
"""Ten times the longest wait of an ordinary test on a slow, busy machine."""


async def until(
    condition: Callable[[], T | Awaitable[T]],
    *,
    timeout_s: float = TIMEOUT_S,
    interval_s: float = 0.02,
    message: str | Callable[[], str] = "",
) -> T:
    """Wait until `condition()` is true and return what it returned.

    Args:
        condition: a function or a coroutine function, called every `interval_s` seconds.
        message: added to the error; called when the wait has failed if it is a function.

    Raises:
        AssertionError: the condition was not true within `timeout_s` seconds.
    """
    give_up_s = time.monotonic() + timeout_s
    while True:
        value = condition()
        if inspect.isawaitable(value):
            value = await value
        if value:
            return value
        _give_up_after(give_up_s, timeout_s, message)
        await sleep(interval_s)


def eventually(
    condition: Callable[[], T],
    *,
    timeout_s: float = TIMEOUT_S,
    interval_s: float = 0.1,
    message: str | Callable[[], str] = "",
) -> T:
    """Do the same as `until` in a test without an event loop."""
    give_up_s = time.monotonic() + timeout_s
    while True:
        value = condition()
        if value:
            return value
        _give_up_after(give_up_s, timeout_s, message)
        time.sleep(interval_s)


async def known(directory: Any, *services: str) -> None:
    """Wait until a directory has read the catalogues of these services: on a busy machine one round
    may end before that."""
    give_up_s = time.monotonic() + TIMEOUT_S
    await directory.refresh()
    while not {*services} <= {read.service for read in directory.catalogs}:
        _give_up_after(give_up_s, TIMEOUT_S, f"{services} are not all known")
        await directory.refresh()


async def at_last(operation: Callable[[], Awaitable[T]]) -> T:
    """The result of an operation, which is tried again as long as it raises a Fault: on a busy
    machine a server may answer later than a bucket's limit, or be back later than the test goes on.
    """
    give_up_s = time.monotonic() + TIMEOUT_S
    while True:
        try:
            return await operation()
        except Fault as fault:
            _give_up_after(give_up_s, TIMEOUT_S, str(fault))
        await sleep(0.02)


def _give_up_after(give_up_s: float, timeout_s: float, message: str | Callable[[], str]) -> None:
    if time.monotonic() > give_up_s:
        more = message() if callable(message) else message
        raise AssertionError(f"not true within {timeout_s:.0f} s. {more}".rstrip())


_CHARS = 1_000_000
"""A step for each pair of them takes at least eight minutes, at a nanosecond a step."""
_GIVE_UP_S = 120.0
"""At least twenty times what linear work takes on a busy machine."""


def work_ends(
    work: Callable[[str], object],
    unit: str,
    *,
    size: int = _CHARS,
    end: str = "",
    give_up_s: float = _GIVE_UP_S,
) -> None:
    """Do some work on a long text, whose time must not grow with the square of the text.

    Nothing is measured, since a busy machine may take several times as long. The text is so long
    that work whose time grows with its square takes very long on any machine, and is given up with
    an AssertionError. In the main thread only.

    Args:
        unit: is repeated to `size` characters.
        end: stands behind them.
    """

    def give_up(number: int, frame: object) -> None:
        raise AssertionError(f"{unit[:40]!r}, repeated to {size} characters: no end is near")

    before = signal.signal(signal.SIGALRM, give_up)
    signal.setitimer(signal.ITIMER_REAL, give_up_s)
    try:
        work((unit * size)[:size] + end)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
