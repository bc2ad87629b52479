"""The log of one process, in a file of limited size."""

from __future__ import annotations

from collections import deque
from pathlib import Path

__all__ = ["LogFile"]

MAX_BYTES = 5 * 2**20


class LogFile:
    """Lines of a process. A full file becomes `<name>.1`, so that at most twice the limit is kept.

    Args:
        path: its folder must exist.
        max_bytes: of one file.

    Raises:
        OSError: the file cannot be written.
    """

    def __init__(self, path: Path, *, max_bytes: int = MAX_BYTES) -> None:
        self.path = path
        self._max_bytes = max_bytes
        self._last: deque[str] = deque(maxlen=50)
        self._file = path.open("ab", buffering=0)

    def write(self, line: str) -> None:
        """Append a line."""
        self._last.append(line)
        if self._file.tell() > self._max_bytes:
            self._file.close()
            self.path.replace(self.path.with_name(f"{self.path.name}.1"))
            self._file = self.path.open("ab", buffering=0)
        self._file.write(f"{line}\n".encode(errors="replace"))

    def last(self, count: int) -> list[str]:
        """The newest lines that were written here, at most fifty."""
        return list(self._last)[-count:]

    def close(self) -> None:
        """Close the file."""
        self._file.close()
