"""What a stack keeps in its data folder while it runs: the lock, and the state file."""

from __future__ import annotations

import asyncio
import fcntl
import shutil
import time
from contextlib import suppress
from pathlib import Path
from typing import IO

from searchbus_runtime import StackState, read_state, write_state
from searchbus_runtime.state import LOCK_FILE

from .errors import AlreadyRunningError
from .output import tell

_LOCK_ATTEMPTS = 5
_LOOKERS_S = 10.0
"""Processes that look may hold the lock for so long; one that is stopped then counts as a stack."""
_WRITE_AGAIN_S = 2.0
"""Seconds between attempts to write the state file."""


def restored(data: Path) -> Path:
    """Where a data folder that was restored is, whole, until it takes its place."""
    return data.with_name(f".{data.name}.restored")


def claim_folder(data: Path) -> IO[str]:
    """Make a data folder where it is missing, and lock it: it belongs to one stack at a time.

    The lock ends when the file is closed.

    Raises:
        AlreadyRunningError: a stack runs, starts or stops there.
    """
    data.parent.mkdir(parents=True, exist_ok=True)
    whole = restored(data)
    if not data.exists() and whole.is_dir():
        whole.rename(data)  # a restore was killed between its last two steps
        tell(f"{data} is now what an interrupted restore had put together")
    data.mkdir(mode=0o700, exist_ok=True)
    lock = (data / LOCK_FILE).open("a+")
    if _is_locked(lock):
        # Of a restore that was killed before: it must not come back when the folder is deleted.
        shutil.rmtree(whole, ignore_errors=True)
        return lock
    lock.close()
    state = read_state(data)
    where = f" at {state.url} (process {state.pid})" if state else ""
    raise AlreadyRunningError(
        f"A stack is already running on {data}{where}. Use it, stop it, or choose "
        "another folder with --data."
    )


def _is_locked(file: IO[str]) -> bool:
    """Lock a file that no other process holds; those that only look share it for a moment, which is
    long on a busy machine."""
    held, give_up_s = 0, time.monotonic() + _LOOKERS_S
    while held < _LOCK_ATTEMPTS and time.monotonic() < give_up_s:
        with suppress(BlockingIOError):
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            fcntl.flock(file, fcntl.LOCK_UN)
        except BlockingIOError:
            held += 1
        time.sleep(0.05)
    return False


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
            self._again = loop.call_later(_WRITE_AGAIN_S, self.write, state)
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
