"""The longest turn of the event loop: in lines of Python for the tests, in CPU time for the table.

Lines are the same number on every machine. What one call into C takes is not in them: that is
measured, by longest_turns.py, and no test compares it with a limit.
"""

from __future__ import annotations

import asyncio
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import partial
from types import FrameType
from typing import Any, TypeVar

import pytest


@dataclass
class LoopWatch:
    """`worst_s` is the longest callback since it was set to 0."""

    worst_s: float = 0.0

    def __call__(self, run: Callable[[], None]) -> None:
        """Run a callback."""
        start_s = time.thread_time()
        try:
            run()
        finally:
            self.worst_s = max(self.worst_s, time.thread_time() - start_s)


@dataclass
class TurnLines:
    """`worst` is the most lines of Python that one callback ran; a turn of a loop is a line each
    time."""

    worst: int = 0

    def __call__(self, run: Callable[[], None]) -> None:
        """Run a callback."""
        lines = 0

        def count(frame: FrameType, event: str, argument: object) -> Any:
            nonlocal lines
            lines += event == "line"
            return count

        before = sys.gettrace()
        sys.settrace(count)
        try:
            run()
        finally:
            sys.settrace(before)
            self.worst = max(self.worst, lines)


Measure = TypeVar("Measure", LoopWatch, TurnLines)


@contextmanager
def _around_callbacks(monkeypatch: pytest.MonkeyPatch, measure: Measure) -> Iterator[Measure]:
    """Measure each callback of asyncio's own event loop."""
    run = asyncio.Handle._run
    with monkeypatch.context() as patch:
        patch.setattr(asyncio.Handle, "_run", lambda handle: measure(partial(run, handle)))
        yield measure


def watching(monkeypatch: pytest.MonkeyPatch) -> AbstractContextManager[LoopWatch]:
    """Measure CPU time."""
    return _around_callbacks(monkeypatch, LoopWatch())


def counting_lines(monkeypatch: pytest.MonkeyPatch) -> AbstractContextManager[TurnLines]:
    """Count lines of Python."""
    return _around_callbacks(monkeypatch, TurnLines())


def unit_s() -> float:
    """The CPU seconds of a fixed piece of work, about 5 ms; the median of some rounds."""

    def once() -> float:
        start_s = time.thread_time()
        number = 0
        for value in range(100_000):
            number += value
        return time.thread_time() - start_s

    return statistics.median(once() for _ in range(9))
