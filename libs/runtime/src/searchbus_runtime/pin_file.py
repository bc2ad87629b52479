"""The file of pins: the definitions of tools that were approved, for every process that reads it.

    file = PinFile(folder / "pins.json")
    with file.changing() as pins:          # one writer at a time, on this machine
        pins.approve("files", "server-7", tools)

JSON of `pins.Pins`, for its owner only. It is replaced in one step.
"""

from __future__ import annotations

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from searchbus_contracts.codec import canonical

from .files import file_stamp, write_atomically
from .pins import Pins


class PinFile:
    """The file at a path; it may not exist yet."""

    def __init__(self, path: Path) -> None:
        self.path = path
        # Thousands of definitions take long to decode, and are asked for at each change.
        self._last: tuple[object, Pins] | None = None

    def stamp(self) -> tuple[int, ...] | None:
        """Changes with the file's content; None where there is no file. Raises OSError."""
        return file_stamp(self.path)

    def read(self) -> Pins:
        """All pins, which the caller does not change; none where the file does not exist.

        Raises:
            OSError: it cannot be read.
            ValueError: it is damaged.
        """
        stamp = self.stamp()
        if self._last is not None and self._last[0] == stamp:
            return self._last[1]
        try:
            content = self.path.read_bytes()
        except FileNotFoundError:
            return Pins()
        try:
            pins = msgspec.json.decode(content, type=Pins)
        except (msgspec.MsgspecError, ValueError, RecursionError) as error:
            raise ValueError(
                f"{self.path} is not a valid file of pins: {error}. Put it back from a copy, or "
                "delete it to approve the present definitions."
            ) from None
        # Replaced meanwhile, the file has another stamp than this one: it is read again.
        self._last = stamp, pins
        return pins

    @contextmanager
    def changing(self) -> Iterator[Pins]:
        """Read the pins, and write them when the block ends without an exception.

        Raises:
            OSError: the file cannot be read or written.
            ValueError: it is damaged.
        """
        self.path.parent.mkdir(parents=True, exist_ok=True)
        # A file beside it: the pins' own file is replaced, and a lock on it with it.
        with self.path.with_name(f"{self.path.name}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            pins = self.read().copy()
            yield pins
            write_atomically(self.path, canonical(pins), mode=0o600)
            self._last = self.stamp(), pins
