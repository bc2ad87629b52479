"""The log of one process, in a file of limited size."""

from __future__ import annotations

from collections import deque
from pathlib import Path

MAX_BYTES = 5 * 2**20


class LogFile:
    """Lines of a process. A full file becomes `<name>.1`, so that at most twice the limit is kept.

    Lines that cannot be written, e.g. on a full disk, are counted; the next one that can be says
    how many are missing.

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
        self._lost = 0

    def write(self, line: str) -> None:
        """Append a line."""
        self._last.append(line)
        missing = f"({self._lost} lines could not be written)\n" if self._lost else ""
        try:
            self._append(f"{missing}{line}\n".encode(errors="replace"))
        except OSError:
            self._lost += 1
        else:
            self._lost = 0

    def _append(self, data: bytes) -> None:
        if self._file.tell() > self._max_bytes:
            self._file.close()
            self.path.replace(self.path.with_name(f"{self.path.name}.1"))
            self._file = self.path.open("ab", buffering=0)
        self._file.write(data)

    def last(self, count: int) -> list[str]:
        """The newest lines that were written here, at most fifty."""
        return list(self._last)[-count:]

    def close(self) -> None:
        """Close the file."""
        self._file.close()
