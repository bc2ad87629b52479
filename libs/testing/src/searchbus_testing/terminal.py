"""A command on a pseudo-terminal, for what it asks a person."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import signal
import subprocess
import termios
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Self

_GIVE_UP_S = 120.0
_CONTROL = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\r")


def _take_terminal() -> None:
    """Ctrl-C reaches the processes of the terminal that controls them, unless they ignore it, as
    those that a script started in the background do."""
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)
    signal.signal(signal.SIGINT, signal.SIG_DFL)


class Terminal:
    """A running command, with our environment and more; leaving the context ends it."""

    def __init__(
        self,
        command: Sequence[str | Path],
        *,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        ours, theirs = pty.openpty()
        self._descriptor = ours
        self._process = subprocess.Popen(
            command, stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True,
            preexec_fn=_take_terminal,
            env={**os.environ, "TERM": "xterm", "COLUMNS": "200", **(environment or {})},
        )  # fmt: skip
        os.close(theirs)
        self.shown = ""
        """All that it printed, without colors."""
        self._seen = 0

    def expect(self, text: str) -> None:
        """Wait until it has printed a text behind what was expected before."""
        while (found := self.shown.find(text, self._seen)) < 0:
            assert self._read(), f"{text!r} is not in: {self.shown[self._seen :]}"
        self._seen = found + len(text)

    def send(self, line: str) -> None:
        """Type a line."""
        os.write(self._descriptor, f"{line}\n".encode())

    def end(self) -> int:
        """Wait until it ends; returns its exit code."""
        while self._read():
            pass
        return self._process.wait(_GIVE_UP_S)

    def _read(self) -> bool:
        """Read some more; whether there may be yet more."""
        ready, _, _ = select.select([self._descriptor], [], [], _GIVE_UP_S)
        assert ready, f"it waits: {self.shown}"
        try:
            part = os.read(self._descriptor, 65_536)
        except OSError:  # the end of a terminal on Linux
            return False
        self.shown += _CONTROL.sub("", part.decode(errors="replace"))
        return bool(part)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait()
        os.close(self._descriptor)
