"""Processes and ports of tests, and the watcher that leaves no process behind."""

from __future__ import annotations

import os
import secrets
import socket
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import psutil

__all__ = ["MARK", "alive", "free_port", "watch_this_process"]

MARK = "SEARCHBUS_TEST_RUN"
"""The environment variable that every process of a test run has."""
_watchers: list[subprocess.Popen[bytes]] = []


def free_port() -> int:
    """A port of loopback that is free now; prefer port 0 where a program takes it."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return int(probe.getsockname()[1])


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
