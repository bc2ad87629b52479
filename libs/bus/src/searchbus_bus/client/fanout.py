"""Several requests for one answer: fan-out, reciprocal rank fusion of rankings, hedged reads.

Cormack, Clarke, Büttcher: Reciprocal Rank Fusion outperforms Condorcet and individual Rank Learning
Methods (SIGIR 2009). Dean, Barroso: The Tail at Scale (CACM 2013).
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from searchbus_contracts import ErrorCode, Failure, Fault

T = TypeVar("T")

_WINDOW = 200
_QUANTILE = 0.95
_LEAST_SAMPLES = 20
"""Fewer replies than this say nothing about the quantile."""
_NO_REPLY = Failure(
    code=ErrorCode.INTERNAL,
    message="The request ended without a reply. Report it to the operator.",
)


@dataclass(slots=True)
class Gathered:
    """The outcome of a fan-out: every name stands in exactly one of the two."""

    replies: dict[str, Any] = field(default_factory=dict)
    failures: dict[str, Failure] = field(default_factory=dict)


async def gather(sources: Mapping[str, Callable[[], Awaitable[Any]]]) -> Gathered:
    """Call every source at once and wait for all, whatever fails; a cancel cancels each."""
    gathered = Gathered()

    async def run(source: Callable[[], Awaitable[Any]]) -> tuple[Any, Failure | None]:
        try:
            return await source(), None
        except Fault as fault:
            return None, fault.failure

    async with asyncio.TaskGroup() as group:
        tasks = {name: group.create_task(run(source)) for name, source in sources.items()}
    # In the given order, whichever came first: the caller fuses deterministically.
    for name, task in tasks.items():
        reply, failure = (None, _NO_REPLY) if task.cancelled() else task.result()
        if failure is None:
            gathered.replies[name] = reply
        else:
            gathered.failures[name] = failure
    return gathered


K = TypeVar("K", bound=Hashable)


def reciprocal_rank(rank: int, *, k: int, weight: float = 1.0) -> float:
    """The score of one ranking for the item at `rank` (0 is the best): weight / (k + rank + 1). The
    larger k, the less the first ranks differ: 60 suits lists of a thousand, 20 of ten."""
    return weight / (k + rank + 1)


def reciprocal_rank_fusion(rankings: Iterable[Iterable[K]], *, k: int) -> dict[K, float]:
    """Item → its scores in equally weighted rankings, each best first, added up; in the order of
    first occurrence: sort it for a ranking."""
    scores: dict[K, float] = {}
    for ranking in rankings:
        for rank, item in enumerate(ranking):
            scores[item] = scores.get(item, 0.0) + reciprocal_rank(rank, k=k)
    return scores


class RecentTimes:
    """The latest times; `_QUANTILE` of them are not above the usual one."""

    def __init__(self) -> None:
        self._latest: deque[float] = deque(maxlen=_WINDOW)

    @property
    def value_s(self) -> float | None:
        """The usual one, in seconds; None before there are enough samples."""
        times = sorted(self._latest)
        if len(times) < _LEAST_SAMPLES:
            return None
        return times[min(len(times) - 1, int(_QUANTILE * len(times)))]

    def add(self, seconds: float) -> None:
        """Take a time."""
        self._latest.append(seconds)


class Hedge:
    """Hedges the requests of one kind: a second one is sent when the reply takes longer than usual.

    Only for reads of our own services: a second request to a scraper or a paid API would cost more
    than it saves.

    Args:
        share: limit of second requests, as a share of all requests.
        least_s: the second request is never sent before, in seconds.
    """

    def __init__(self, *, share: float = 0.05, least_s: float = 0.02):
        self._times = RecentTimes()
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
        """The first reply of `send()`, called once or twice (then `again()`); the slower call is
        cancelled. Raises what the first call raised, where none returned."""
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
