"""What a command prints to standard error: a file of limited size for each server.

Several callers, and several workers, can have a command of the same server: all append to one file.
"""

from __future__ import annotations

import fcntl
import logging
from collections import deque
from collections.abc import Iterable
from logging.handlers import WatchedFileHandler
from pathlib import Path

from searchbus_runtime.wording import printable

__all__ = ["ChildLog"]

_MAX_BYTES = 2**20
_SHOWN_LINES = 5
_SHOWN_CHARS = 200
_MASK = "***"
_LEAST_SECRET_CHARS = 4
"""A shorter value, such as 1 or on, is no secret, and stands in other words too."""
_FORMATTER = logging.Formatter()
_log = logging.getLogger("searchbus.attach")


class _SharedFile(WatchedFileHandler):
    """A file that others append to as well: who makes it too large replaces it, once."""

    def emit(self, record: logging.LogRecord) -> None:
        super().emit(record)
        if self.stream is None or self.stream.tell() < _MAX_BYTES:
            return
        fcntl.flock(self.stream, fcntl.LOCK_EX)
        # Whoever waited for the lock has the file that was replaced, and opens the new one.
        path = Path(self.baseFilename)
        if path.exists() and path.stat().st_ino == self.ino:
            path.replace(f"{path}.1")
        self.reopenIfNeeded()


class ChildLog:
    """`<folder>/attach-<server>.log` and one older file; without a folder, our own log at debug.

    Args:
        secrets: values that `told` does not show.
    """

    def __init__(self, server: str, folder: Path | None, secrets: Iterable[str] = ()) -> None:
        self._server = server
        self._path = None if folder is None else folder / f"attach-{server}.log"
        self._handler: _SharedFile | None = None
        # Lines of a file may be of others, and can be read there.
        self._last: deque[str] | None = deque(maxlen=_SHOWN_LINES) if folder is None else None
        self._is_empty = True
        lines = {line.strip() for value in secrets for line in (value, *value.splitlines())}
        # The longest first: one value may be a part of another.
        self._secrets = sorted(
            (printable(line) for line in lines if len(line) >= _LEAST_SECRET_CHARS),
            key=len,
            reverse=True,
        )

    @property
    def told(self) -> str:
        """What the end of an error says of it: the file, or where there is none the last lines."""
        if self._is_empty:
            return ", and printed nothing to standard error"
        if self._last is None:
            return f"; see {self._path}" if self._path is not None else ""
        return ". It printed last:" + "".join(f"\n  {line}" for line in self._last)

    def write(self, text: str) -> None:
        """Append one line or many; raises nothing."""
        text = printable(text)
        self._is_empty = self._is_empty and not text.strip()
        if self._last is not None:
            shown = text
            for secret in self._secrets:
                shown = shown.replace(secret, _MASK)
            kept = (line.strip()[:_SHOWN_CHARS] for line in shown.split("\n"))
            self._last.extend(line for line in kept if line)
        if self._path is None:
            _log.debug("%s: %s", self._server, text)
            return
        try:
            if self._handler is None:
                self._path.parent.mkdir(parents=True, exist_ok=True)
                self._handler = _SharedFile(self._path)
            # One record: a command can print thousands of lines at once.
            record = logging.makeLogRecord({})
            stamp = _FORMATTER.formatTime(record)
            record.msg = "\n".join(f"{stamp} {line}" for line in text.split("\n"))
            self._handler.emit(record)
        except OSError as error:
            _log.warning("the log of %s cannot be written: %s", self._server, error)
            self._path = None

    def close(self) -> None:
        """Close the file."""
        if self._handler is not None:
            self._handler.close()
            self._handler = None
