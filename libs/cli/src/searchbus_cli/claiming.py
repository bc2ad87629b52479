"""A data folder belongs to one stack at a time, which holds a lock on a file of it."""

from __future__ import annotations

import fcntl
import time
from pathlib import Path
from typing import IO

from searchbus_runtime import read_state
from searchbus_runtime.state import LOCK_FILE

from .errors import AlreadyRunning

_ATTEMPTS = 5


def claim_folder(data: Path) -> IO[str]:
    """Make the folder where it is missing, and lock it; the lock ends when the file is closed.

    Raises:
        AlreadyRunning: a stack runs, starts or stops there.
    """
    data.parent.mkdir(parents=True, exist_ok=True)
    data.mkdir(mode=0o700, exist_ok=True)
    lock = (data / LOCK_FILE).open("a+")
    if _is_locked(lock):
        return lock
    lock.close()
    state = read_state(data)
    where = f" at {state.url} (process {state.pid})" if state else ""
    raise AlreadyRunning(
        f"A stack is already running on {data}{where}. Use it, stop it, or choose "
        "another folder with --data."
    )


def _is_locked(file: IO[str]) -> bool:
    """Lock a file that no other process holds; one that only looks holds it for a moment."""
    for _ in range(_ATTEMPTS):
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            time.sleep(0.05)
        else:
            return True
    return False
