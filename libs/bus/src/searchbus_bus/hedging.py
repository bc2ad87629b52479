"""Hedged reads: a second request is sent when a reply takes longer than nearly all replies do.

After Dean and Barroso, The Tail at Scale (CACM 2013). Only for reads of our own services: a second
request to a scraper or a paid API would cost more than it saves.

The share of second requests is limited. `Bus.send_hedged` therefore sends each request to an
instance, and avoids one that was slower than another several times in a row: a worker that hangs
costs only a few second requests.
"""

from __future__ import annotations

import asyncio
from bisect import insort
from collections import deque
from collections.abc import Awaitable, Callable
from typing import TypeVar

__all__ = ["Hedge", "RecentTimes"]

T = TypeVar("T")

_WINDOW = 200
_LEAST_SAMPLES = 20
"""Fewer replies than this say nothing about the quantile."""


class RecentTimes:
    """A quantile of the latest times."""

    def __init__(self, *, quantile: float) -> None:
        self._quantile = quantile
        self._latest: deque[float] = deque()
        self._sorted: list[float] = []

    @property
    def value_s(self) -> float | None:
        """The quantile, in seconds; None before there are enough samples."""
        if len(self._sorted) < _LEAST_SAMPLES:
            return None
        return self._sorted[min(len(self._sorted) - 1, int(self._quantile * len(self._sorted)))]

    def add(self, seconds: float) -> None:
        """Take a time."""
        self._latest.append(seconds)
        insort(self._sorted, seconds)
        if len(self._latest) > _WINDOW:
            self._sorted.remove(self._latest.popleft())


class Hedge:
    """Hedges the requests of one kind.

    Args:
        quantile: of the latest latencies, after which the second request is sent.
        share: limit of second requests, as a share of all requests.
        least_s: the second request is never sent before, in seconds.
    """

    def __init__(self, *, quantile: float = 0.95, share: float = 0.05, least_s: float = 0.02):
        self._times = RecentTimes(quantile=quantile)
        self._share = share
        self._least_s = least_s
        self._tokens = 0.0
        self.requests = 0
        self.hedged = 0

    @property
    def after_s(self) -> float | None:
        """Seconds until the second request; None before there are enough samples."""
        usual_s = self._times.value_s
        return None if usual_s is None else max(self._least_s, usual_s)

    async def run(
        self, send: Callable[[], Awaitable[T]], again: Callable[[], Awaitable[T]] | None = None
    ) -> T:
        """The first reply of `send()`, called once or twice; the slower call is cancelled.

        Args:
            again: the second call; by default the same as the first.

        Raises:
            Exception: the first request's, where no call returned.
        """
        self.requests += 1
        self._tokens = min(5.0, self._tokens + self._share)
        loop = asyncio.get_running_loop()
        started_s = loop.time()
        first = asyncio.ensure_future(send())
        tasks = {first}
        try:
            after_s = self.after_s
            if after_s is not None:
                await asyncio.wait(tasks, timeout=after_s)
                if not first.done() and self._tokens >= 1:
                    self._tokens -= 1
                    self.hedged += 1
                    tasks.add(asyncio.ensure_future((again or send)()))
            while tasks:
                done, tasks = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
                for task in done:
                    if not task.cancelled() and task.exception() is None:
                        self._times.add(loop.time() - started_s)
                        return task.result()
            return first.result()
        finally:
            for task in (first, *tasks):
                task.cancel()
            await asyncio.gather(first, *tasks, return_exceptions=True)
