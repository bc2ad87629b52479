"""The calls of one server that run, and since when there are none."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from searchbus_bus import Call

__all__ = ["RunningCalls"]


class RunningCalls:
    """Calls that run or wait for a connection."""

    def __init__(self) -> None:
        self._calls: set[Call] = set()
        self._used_s = time.monotonic()

    def __len__(self) -> int:
        return len(self._calls)

    @contextmanager
    def including(self, call: Call) -> Iterator[None]:
        """Around one call."""
        self._calls.add(call)
        try:
            yield
        finally:
            self._calls.discard(call)
            self.note_use()

    def note_use(self) -> None:
        """The server was of use until now."""
        self._used_s = time.monotonic()

    @property
    def unused_s(self) -> float:
        """Seconds since the end of the last call; 0 while there are calls."""
        return 0.0 if self._calls else time.monotonic() - self._used_s

    @property
    def only(self) -> Call | None:
        """The call, where it is the only one."""
        return next(iter(self._calls)) if len(self._calls) == 1 else None
