"""The state file of a running stack, by which others find it."""

from __future__ import annotations

import asyncio
from pathlib import Path

from searchbus_runtime import StackState, write_state

from .output import tell

WRITE_AGAIN_S = 2.0
"""Between attempts to write the file."""


class StateFile:
    """`<data>/state.json`, written by the process of the stack; on a full disk, later again."""

    def __init__(self, data: Path) -> None:
        self._path = data / "state.json"
        self._again: asyncio.TimerHandle | None = None
        self._failures = 0

    def write(self, state: StackState) -> None:
        """Write the newest state; a failure is reported once, and the next success as well."""
        self._stop_writing()
        try:
            write_state(state)
        except OSError as error:
            self._failures += 1
            if self._failures == 1:
                tell(f"state.json cannot be written ({error.strerror}); it is tried again")
            loop = asyncio.get_running_loop()
            self._again = loop.call_later(WRITE_AGAIN_S, self.write, state)
        else:
            if self._failures:
                tell(f"state.json was written after {self._failures} failed attempts")
            self._failures = 0

    def remove(self) -> None:
        """Nobody finds the stack any more."""
        self._stop_writing()
        self._path.unlink(missing_ok=True)

    def _stop_writing(self) -> None:
        if self._again is not None:
            self._again.cancel()
            self._again = None
