"""Locks between the processes of one run, which may need the same folder at the same time."""

from __future__ import annotations

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Wait until no other process, and no other thread, is in this block with the same file.

    Args:
        path: a file for the lock alone; it is made with its folder, and stays.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)  # ends with the file, also when the process is killed
        yield
