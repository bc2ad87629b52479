"""Processes and ports of tests, and the watcher that leaves no process behind."""

from __future__ import annotations

import os
import secrets
import socket
import subprocess
import sys
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

import psutil

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
    before the program does, or while a server that was killed is started again on it. Prefer port 0
    where a program takes it and keeps it.
    """
    while True:
        port = _FIRST_PORT + secrets.randbelow(_PORTS)  # hypothesis seeds the module random
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
