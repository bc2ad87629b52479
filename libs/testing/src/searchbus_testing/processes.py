"""Processes and ports of tests, NATS among them, and the watcher that leaves none behind."""

from __future__ import annotations

import os
import secrets
import signal
import socket
import subprocess
import sys
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from .waiting import eventually

MARK = "INVOCATION_ID"
"""The environment variable that every process of a test run has.

Services let others see only variables without secrets, of which this is one, and that only to root:
for another user a killed test run may leave a stack behind.
"""
_FIRST_PORT, _PORTS = 12_000, 20_000
"""Below those that Linux, macOS and Windows give to outgoing connections by default."""
_given: set[int] = set()
_watchers: list[subprocess.Popen[bytes]] = []


def free_port() -> int:
    """A port of loopback that is free now, and another one each time.

    It is outside the range that the system gives to outgoing connections: one of them could take it
    before the program does, or while a server that was killed is started again on it. So could
    another process of the same tests, which has ports of its own. Prefer port 0 where a program
    takes it and keeps it.
    """
    processes = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    own = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0")[2:]) % processes
    while True:
        # hypothesis seeds the module random
        port = _FIRST_PORT + secrets.randbelow(_PORTS // processes) * processes + own
        if port in _given:
            continue
        with suppress(OSError), socket.create_server(("127.0.0.1", port)):
            _given.add(port)
            return port


def alive(pids: Iterable[int]) -> set[int]:
    """Those processes of `pids` that run; a zombie does not."""
    found = set()
    for pid in pids:
        try:
            if psutil.Process(pid).status() != psutil.STATUS_ZOMBIE:
                found.add(pid)
        except psutil.NoSuchProcess:
            continue
    return found


def command_of(process: psutil.Process) -> list[str]:
    """Its program and arguments; empty once it ended, whether it is waited for or not."""
    try:
        return process.cmdline()
    except psutil.NoSuchProcess:  # a zombie, too
        return []


def descendants(pid: int) -> list[psutil.Process]:
    """The processes that a process has started, directly or not.

    psutil's `children` compares times of day, and leaves a process out where the system sets its
    clock right between two looks at it.
    """
    below: dict[int, list[psutil.Process]] = {}
    for found in psutil.pids():
        with suppress(psutil.NoSuchProcess):
            process = psutil.Process(found)
            below.setdefault(process.ppid(), []).append(process)
    descending, parents = [], [pid]
    while parents:
        children = below.pop(parents.pop(), [])
        descending += children
        parents += [child.pid for child in children]
    return descending


def watch_this_process() -> None:
    """Kill all that this process started, directly or not, when it ends in any way.

    A mark in the environment is used and not the parent's id or the process group: services start
    in sessions of their own, and a process whose parent was killed has lost its ancestry.
    """
    # A run within a run (xdist's workers, a test that runs pytest) extends the outer mark.
    mark = ".".join([*filter(None, [os.environ.get(MARK)]), secrets.token_hex(6)])
    environment = {key: value for key, value in os.environ.items() if key != MARK}
    program = Path(__file__).with_name("watcher.py")
    _watchers.append(subprocess.Popen(
        [sys.executable, "-P", program, str(os.getpid()), MARK, mark],
        env=environment, start_new_session=True,
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    ))  # fmt: skip
    os.environ[MARK] = mark


NATS_SERVER = Path(sys.executable).with_name("nats-server")


@dataclass
class NatsServer:
    """A nats-server on loopback that can be killed and started again on its port.

    Args:
        folder: for its log.
        port: -1 takes a free one.
        arguments: added to its command line, e.g. `("-js", "-sd", folder)`.
    """

    folder: Path
    port: int = -1
    arguments: tuple[str, ...] = ()
    process: subprocess.Popen[bytes] | None = field(default=None, repr=False)

    @property
    def url(self) -> str:
        """Its address, nats://127.0.0.1:PORT."""
        return f"nats://127.0.0.1:{self.port}"

    def start(self) -> None:
        """Start the process and wait until it accepts connections."""
        chosen = self.port == -1
        while True:
            if chosen:
                self.port = free_port()
            try:
                self._start()
                return
            except AssertionError as ended:
                # Another process has taken the port since it was chosen.
                if not (chosen and "address already in use" in str(ended)):
                    raise

    def _start(self) -> None:
        log = self.folder / "nats.log"
        log.unlink(missing_ok=True)
        self.process = subprocess.Popen(
            [NATS_SERVER, "-a", "127.0.0.1", "-p", str(self.port), "-l", log,
             *self.arguments]
        )  # fmt: skip

        def text() -> str:
            return log.read_text() if log.exists() else ""

        def ready() -> bool:
            ended = self.process is not None and self.process.poll() is not None
            assert not ended, f"nats-server ended:\n{text()}"
            return "Server is ready" in text()

        eventually(ready, interval_s=0.02, message=text)

    def reload(self) -> None:
        """Let the server read its configuration again; connections stay, but those of users that it
        no longer has.
        """
        assert self.process is not None
        log = self.folder / "nats.log"
        before = log.read_text().count("Reloaded server configuration")
        self.process.send_signal(signal.SIGHUP)
        eventually(
            lambda: log.read_text().count("Reloaded server configuration") > before,
            interval_s=0.02,
            message=log.read_text,
        )

    def stop(self) -> None:
        """Kill the process; `start` starts another one on the same port."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None
