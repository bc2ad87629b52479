"""Folders of tests: temporary ones in memory, and locks between the processes of one run."""

from __future__ import annotations

import fcntl
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_MEMORY = "/dev/shm"  # noqa: S108


@contextmanager
def quick_folder() -> Iterator[Path]:
    """A folder in memory where the system has one, removed at the end.

    Creating one collection of the embedded store syncs some ten files: half a second on a slow
    disk, a fiftieth of that in memory.
    """
    parent = _MEMORY if os.access(_MEMORY, os.W_OK) else None
    with tempfile.TemporaryDirectory(prefix="searchbus-test-", dir=parent) as folder:
        yield Path(folder)


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Wait until no other process, and no other thread, is in this block with the same file, which
    is for the lock alone, and stays."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)  # ends with the file, also when the process is killed
        yield
