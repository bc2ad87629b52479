"""Places that callers share, as many as they need while nobody else waits."""

from __future__ import annotations

import asyncio
import itertools
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

_REMEMBERED = 10_000
"""Callers whose last turn is known; all others count as if they had none."""


class Places:
    """A number of places; the next one that is free is for the caller who holds the fewest.

    Of those who hold as many it is for whoever was given one the longest ago, or never: a semaphore
    would let them wait behind all that others have asked for.
    """

    def __init__(self, count: int) -> None:
        self._count = count
        self._held: Counter[str] = Counter()
        self._given: dict[str, int] = {}
        """The numbers of the callers' last turns, the oldest first."""
        self._numbers = itertools.count(1)
        self._waiting: dict[asyncio.Future[None], str] = {}
        """The callers, in the order they came."""

    @asynccontextmanager
    async def of(self, caller: str) -> AsyncIterator[None]:
        """Wait for a place, and hold it inside the block."""
        turn = asyncio.get_running_loop().create_future()
        self._waiting[turn] = caller
        self._give()
        try:
            await turn
            yield
        finally:
            if self._waiting.pop(turn, None) is None:
                self._held -= Counter((caller,))
                self._give()

    def _give(self) -> None:
        while self._waiting and self._held.total() < self._count:
            turn = min(self._waiting, key=self._rank)
            caller = self._waiting.pop(turn)
            self._held[caller] += 1
            self._given.pop(caller, None)
            self._given[caller] = next(self._numbers)
            if len(self._given) > _REMEMBERED:
                del self._given[next(iter(self._given))]
            if not turn.done():  # else it was cancelled, and gives the place back
                turn.set_result(None)

    def _rank(self, turn: asyncio.Future[None]) -> tuple[int, int]:
        caller = self._waiting[turn]
        return self._held[caller], self._given.get(caller, 0)
