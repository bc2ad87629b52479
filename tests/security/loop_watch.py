"""The longest time for which one callback held the event loop, in CPU seconds of its thread."""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import pytest

UNITS = 20
"""100 ms on a machine where `unit_s` takes 5 ms."""


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


def unit_s() -> float:
    """The CPU seconds of a fixed piece of work, about 5 ms; the median of some rounds."""

    def once() -> float:
        start_s = time.thread_time()
        number = 0
        for value in range(100_000):
            number += value
        return time.thread_time() - start_s

    return statistics.median(once() for _ in range(9))
