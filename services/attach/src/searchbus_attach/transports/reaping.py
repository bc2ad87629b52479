"""Starts the process that ends what commands leave behind (reaper.py), and tells it of them.

reaper = Reaper()
with reaper.starting():
    reaper.watch(group, most_processes=256, mark="…")
reaper.forget(group)
reaper.close()
"""

from __future__ import annotations

import asyncio
import logging
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from searchbus_runtime.parent import adopt_orphans
from searchbus_runtime.secrecy import public_environment

from . import reaper

log = logging.getLogger("searchbus.attach")


class Reaper:
    """The process that ends what commands started; see reaper.py. It runs while there are any.

    Meanwhile this process adopts orphans, where the system can do that: a command that leaves its
    session and its parents is still found.

    Args:
        every: whether this process has no children but commands.
    """

    def __init__(self, *, every: bool = False) -> None:
        self._every = every
        self._process: subprocess.Popen[bytes] | None = None
        self._groups: dict[int, str] = {}
        self._starting = 0
        self._ended: set[int] = set()
        self._rest = b""

    @contextmanager
    def starting(self) -> Iterator[None]:
        """Start a command in this context, and watch it: what leaves it before that is found too,
        and the command itself is not taken for one that another left behind."""
        self._starting += 1
        try:
            self._tell_running(">")
            yield
        finally:
            self._starting -= 1
            self._tell("<")

    def watch(self, group: int, most_processes: int, mark: str) -> None:
        """Watch a group whose processes have a mark in their environment: it ends with this
        process, and where it has more processes."""
        self._groups[group] = f"+{group} {most_processes} {mark}"
        self._tell_running(self._groups[group])

    def has_ended(self, group: int) -> bool:
        """Whether the group was killed, since it started too many processes."""
        self._read()
        return group in self._ended

    def forget(self, group: int) -> None:
        """The group has ended; what left it is ended too."""
        self._groups.pop(group, None)
        self._ended.discard(group)
        self._tell(f"-{group}")

    def close(self) -> None:
        """End the reaper, and what it still watches."""
        process, self._process = self._process, None
        if process is None or process.stdin is None or process.stdout is None:
            return
        if not self._loop.is_closed():
            self._loop.remove_reader(process.stdout)
        with suppress(OSError):
            process.stdin.close()
        process.wait()
        process.stdout.close()
        adopt_orphans(False)

    def _start(self) -> None:
        self.close()
        adopt_orphans(True)
        arguments = [str(os.getpid()), *(["every"] if self._every else [])]
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-S", reaper.__file__, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,
            env=public_environment(),
        )
        assert self._process.stdout is not None
        os.set_blocking(self._process.stdout.fileno(), False)
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(self._process.stdout, self._read)

    def _tell_running(self, line: str) -> None:
        """Tell it a line; one that does not run is started, and told everything."""
        told = [line]
        if self._process is None or self._process.poll() is not None:
            told = [*self._groups.values(), *[">"] * self._starting]
            self._start()
        for one in told:
            self._tell(one)

    def _tell(self, line: str) -> None:
        if self._process is not None and self._process.stdin is not None:
            try:
                self._process.stdin.write(f"{line}\n".encode())
                self._process.stdin.flush()
            except OSError as error:
                log.warning("the reaper of commands does not run (%s); it is started anew", error)

    def _read(self) -> None:
        """What the reaper says."""
        if self._process is None or self._process.stdout is None:
            return
        try:
            told = os.read(self._process.stdout.fileno(), 65_536)
        except BlockingIOError:
            return
        if not told:  # it was killed; the next command starts it anew
            self._loop.remove_reader(self._process.stdout)
        *lines, self._rest = (self._rest + told).split(b"\n")
        for line in lines:
            if line.startswith(b"z"):
                with suppress(ChildProcessError):
                    os.waitpid(int(line[1:]), os.WNOHANG)
            elif line == b"e":
                if not self._groups and not self._starting:
                    self.close()
                    return
            elif line.startswith(b"?"):
                log.warning("process %d, which a command left behind, was killed", int(line[1:]))
            else:
                self._ended.add(int(line))
