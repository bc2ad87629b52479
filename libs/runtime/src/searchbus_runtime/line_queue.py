"""Lines that a thread writes."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable

_AT_ONCE = 1000


class LineQueue:
    """Lines that a thread writes, in the order of `add`: no request waits for a file.

    A line is encoded before it is queued. Kept as objects, thousands of them would leave the
    processor's caches, and a thread that encodes them holds the interpreter for milliseconds.

    Args:
        write: gets the next lines, at most 1,000 at once; must not raise.
        name: of the thread, which starts with the first line.
        every_s: seconds between two writes.
        max_queued: a further line is refused.
    """

    def __init__(
        self, write: Callable[[list[bytes]], None], *, name: str, every_s: float, max_queued: int
    ) -> None:
        self._write = write
        self._name = name
        self._every_s = every_s
        self._max_queued = max_queued
        self._lines: deque[bytes] = deque()
        self._writing = threading.Lock()
        self._waiting = threading.Event()
        self._closed = threading.Event()
        self._thread: threading.Thread | None = None

    def add(self, line: bytes) -> bool:
        """Queue a line; False, and nothing done, where the queue is full."""
        if len(self._lines) >= self._max_queued:
            return False
        self._lines.append(line)
        if not self._waiting.is_set():
            self._waiting.set()
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name=self._name, daemon=True)
            self._thread.start()
        return True

    def flush(self) -> None:
        """Write every queued line now."""
        with self._writing:
            self._waiting.clear()
            if self._closed.is_set():  # `close` may have set both just before
                self._waiting.set()
            while self._lines:
                count = min(len(self._lines), _AT_ONCE)
                self._write([self._lines.popleft() for _ in range(count)])

    def close(self) -> None:
        """Write what is queued and end the thread."""
        self._closed.set()
        self._waiting.set()
        if self._thread is not None:
            self._thread.join(timeout=5)
        self.flush()

    def _run(self) -> None:
        # Without lines it sleeps: an idle process wakes up for nothing.
        while self._waiting.wait() and not self._closed.wait(self._every_s):
            self.flush()
