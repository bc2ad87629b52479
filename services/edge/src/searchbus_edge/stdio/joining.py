"""One client's use of the stack on a data folder: found, joined, or started."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from searchbus_runtime import StackState, read_state
from searchbus_runtime.state import is_claimed, join_clients, make_pipe

START_TIMEOUT_S = 600.0
"""As long as `searchbus up` waits for its services."""
_JOIN_POLL_S = 0.1


class NoStackError(RuntimeError):
    """There is no stack to join; the message says what to do."""


class StackClient:
    """One client of the stack on a data folder, which exists; it wants one toolset or everything.
    Leaving the context is the end of its use."""

    def __init__(self, folder: Path, toolset: str | None) -> None:
        self._folder = folder
        self._toolset = toolset
        self._reference: int | None = None
        self._leaving = threading.Event()
        self.state: StackState | None = None

    def __enter__(self) -> StackClient:
        return self

    def __exit__(self, *_: object) -> None:
        self.leave()

    def leave(self) -> None:
        """End the use; a `join` that waits in another thread fails."""
        self._leaving.set()
        self._hold(None)

    @property
    def owns(self) -> bool:
        """Whether the stack runs only as long as clients use it."""
        return self._reference is not None

    @property
    def log(self) -> Path:
        """What a stack that a client started has printed."""
        return self._folder / "stdio.log"

    def join(self) -> StackState:
        """Join the stack that runs or starts, or start one; blocks. Raises StackError."""
        give_up_s = time.monotonic() + START_TIMEOUT_S
        with self._turn(give_up_s):
            # One that is claimed and has no state starts or stops.
            while not self.find() and is_claimed(self._folder):
                self._wait(give_up_s)
            if self.state is None:
                self._start(give_up_s)
        assert self.state is not None
        return self.state

    def find(self) -> bool:
        """Join the stack that runs now; False where none runs."""
        # The pipe first: a stack that still publishes its state after that waits for this client.
        reference = join_clients(self._folder, self._toolset)
        self.state = read_state(self._folder)
        if self.state is None:
            if reference is not None:
                os.close(reference)
            return False
        self._hold(reference)
        return True

    def _start(self, give_up_s: float) -> None:
        reader = make_pipe(self._folder)
        try:
            self._hold(join_clients(self._folder, self._toolset))
            with self.log.open("wb") as log:
                process = subprocess.Popen(
                    # Whatever the settings say: it is for the clients of this machine.
                    [sys.executable, "-m", "searchbus_cli", "up", "--host", "127.0.0.1",
                     "--port", "0", "--data", str(self._folder), "--for-clients"],
                    stdin=reader, stdout=log, stderr=log,
                    # Not of the host's process group: it outlives this client.
                    start_new_session=True,
                )  # fmt: skip
        finally:
            os.close(reader)
        # It must not stay as a zombie, which would look as if it ran.
        threading.Thread(target=process.wait, daemon=True).start()
        try:
            while (state := read_state(self._folder)) is None:
                self._wait(give_up_s, process)
        except BaseException:
            self._hold(None)  # which ends it
            raise
        self.state = state

    def _wait(self, give_up_s: float, process: subprocess.Popen[bytes] | None = None) -> None:
        if process is not None and process.returncode is not None:
            raise NoStackError(f"The stack did not start. See {self.log}.")
        if time.monotonic() > give_up_s:
            raise NoStackError(
                f"The stack is not up after {START_TIMEOUT_S:.0f} s. See {self.log}, or stop what "
                f"uses {self._folder}."
            )
        if self._leaving.wait(_JOIN_POLL_S):
            raise NoStackError("The host has ended the connection.")

    @contextmanager
    def _turn(self, give_up_s: float) -> Iterator[None]:
        """One client of the folder at a time; the lock ends with its process."""
        with (self._folder / "stdio.lock").open("w") as lock:
            while True:
                try:
                    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except BlockingIOError:
                    self._wait(give_up_s)
            yield

    def _hold(self, reference: int | None) -> None:
        previous, self._reference = self._reference, reference
        if previous is not None:
            os.close(previous)
