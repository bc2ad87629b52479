"""Places that callers share, as many as they need while nobody else waits."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class Places:
    """A number of places; the next one that is free is for the caller who holds the fewest.

    A semaphore alone would give it to whoever asked first, and so let others wait behind all that
    one caller has asked for.
    """

    def __init__(self, count: int) -> None:
        self._count = count
        self._held: Counter[str] = Counter()
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
            turn = min(self._waiting, key=lambda turn: self._held[self._waiting[turn]])
            self._held[self._waiting.pop(turn)] += 1
            if not turn.done():  # else it was cancelled, and gives the place back
                turn.set_result(None)
