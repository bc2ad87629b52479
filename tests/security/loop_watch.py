"""The longest turn of the event loop: in lines of Python for the tests, in CPU time for the table.

Lines are the same number on every machine. What one call into C takes is not in them: that is
measured, by longest_turns.py, and no test compares it with a limit.
"""

from __future__ import annotations

import asyncio
import statistics
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType
from typing import Any

import pytest


@dataclass
class LoopWatch:
    """`worst_s` is the longest callback since it was set to 0."""

    worst_s: float = 0.0


@contextmanager
def watching(monkeypatch: pytest.MonkeyPatch) -> Iterator[LoopWatch]:
    """Watch asyncio's own event loop."""
    watch = LoopWatch()
    run = asyncio.Handle._run

    def measured(handle: asyncio.Handle) -> None:
        start_s = time.thread_time()
        try:
            run(handle)
        finally:
            watch.worst_s = max(watch.worst_s, time.thread_time() - start_s)

    with monkeypatch.context() as patch:
        patch.setattr(asyncio.Handle, "_run", measured)
        yield watch


@dataclass
class TurnLines:
    """`worst` is the most lines of Python that one callback ran."""

    worst: int = 0


@contextmanager
def counting_lines(monkeypatch: pytest.MonkeyPatch) -> Iterator[TurnLines]:
    """Count in every callback of asyncio's own event loop; a turn of a loop is a line each time."""
    found = TurnLines()
    run = asyncio.Handle._run

    def counted(handle: asyncio.Handle) -> None:
        lines = 0

        def count(frame: FrameType, event: str, argument: object) -> Any:
            nonlocal lines
            lines += event == "line"
            return count

        before = sys.gettrace()
        sys.settrace(count)
        try:
            run(handle)
        finally:
            sys.settrace(before)
            found.worst = max(found.worst, lines)

    with monkeypatch.context() as patch:
        patch.setattr(asyncio.Handle, "_run", counted)
        yield found


def unit_s() -> float:
    """The CPU seconds of a fixed piece of work, about 5 ms; the median of some rounds."""

    def once() -> float:
        start_s = time.thread_time()
        number = 0
        for value in range(100_000):
            number += value
        return time.thread_time() - start_s

    return statistics.median(once() for _ in range(9))
