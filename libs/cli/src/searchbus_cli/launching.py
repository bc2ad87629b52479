"""Processes of services that are forked from one process with their imports (runtime's launcher).

launcher = Launcher.open()
process = await launcher.start(["ddg"], environment)     # None: start it as a program
launcher.close()
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence

from searchbus_runtime.parent import adopt_orphans
from searchbus_runtime.python import python

_LINE_BYTES = 1024 * 1024


class ForkedProcess:
    """A child process with the part of `asyncio.subprocess.Process` that a `Child` uses.

    Attributes:
        stdout: what it prints on both streams.
        returncode: None while it runs; the negative number of the signal that ended it.
    """

    def __init__(self, pid: int, stdout: asyncio.StreamReader) -> None:
        self.pid = pid
        self.stdout = stdout
        self.returncode: int | None = None
        self._ended = asyncio.Event()
        self._descriptor: int
        if sys.platform != "linux":
            raise OSError("pidfd_open is a call of Linux; see Launcher.open")
        self._descriptor = os.pidfd_open(pid)
        asyncio.get_running_loop().add_reader(self._descriptor, self._reap)

    async def wait(self) -> int:
        """Wait for its end; returns the exit code."""
        await self._ended.wait()
        assert self.returncode is not None
        return self.returncode

    def send_signal(self, number: int) -> None:
        """Send a signal; raises ProcessLookupError where it has ended."""
        if self.returncode is not None:
            raise ProcessLookupError
        os.kill(self.pid, number)

    def terminate(self) -> None:
        """Send SIGTERM."""
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """Send SIGKILL."""
        self.send_signal(signal.SIGKILL)

    def _reap(self) -> None:
        asyncio.get_running_loop().remove_reader(self._descriptor)
        os.close(self._descriptor)
        self.returncode = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        self._ended.set()


class Launcher:
    """A running launcher. `open` starts it."""

    def __init__(self, process: subprocess.Popen[bytes], requests: socket.socket) -> None:
        self._process = process
        self._requests = requests
        self._one_at_a_time = asyncio.Lock()
        self._open = True

    @classmethod
    def open(
        cls, modules: Sequence[str] = (), environment: Mapping[str, str] | None = None
    ) -> Launcher | None:
        """Start a launcher with modules to import beside every service's, and what these see of
        environment; None where the system has no such means."""
        if not hasattr(os, "pidfd_open") or not adopt_orphans(True):
            return None
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        ours.setblocking(False)
        with theirs:
            process = subprocess.Popen(
                python("-m", "searchbus_runtime.launcher", *modules),
                stdin=theirs.fileno(),
                env={**os.environ, **(environment or {})},
                # Ctrl-C signals every process of the terminal's group.
                start_new_session=True,
            )
        return cls(process, ours)

    async def start(
        self, arguments: Sequence[str], environment: Mapping[str, str], preload: Sequence[str] = ()
    ) -> ForkedProcess | None:
        """Start a service; None where the launcher has ended or refuses the request.

        Args:
            arguments: of `python -m searchbus_runtime`.
            environment: the whole one of the process.
            preload: modules that are imported before the fork; later requests wait meanwhile.
        """
        environment, preload = dict(environment), list(preload)
        request = {"arguments": list(arguments), "environment": environment, "preload": preload}
        loop = asyncio.get_running_loop()
        async with self._one_at_a_time:
            if not self._open:
                return None
            read, write = os.pipe()
            try:
                socket.send_fds(self._requests, [json.dumps(request).encode()], [write])
                reply = await loop.sock_recv(self._requests, 64)
            except OSError:  # it has ended, or the environment is larger than a datagram
                reply = b""
            finally:
                os.close(write)
            if not reply:
                os.close(read)
                return None
            output = asyncio.StreamReader(limit=_LINE_BYTES)
            await loop.connect_read_pipe(
                lambda: asyncio.StreamReaderProtocol(output), os.fdopen(read, "rb", buffering=0)
            )
            return ForkedProcess(int(reply), output)

    async def close(self) -> None:
        """End the launcher; the processes that it started go on."""
        async with self._one_at_a_time:
            if self._open:
                self._open = False
                self._requests.close()
                await asyncio.to_thread(self._process.wait)
                adopt_orphans(False)
