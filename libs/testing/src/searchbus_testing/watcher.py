"""Kills the processes of a test run when the process that started this one has ended.

`watcher.py PID NAME MARK`: every process whose environment variable NAME starts with MARK.
It asks for its parent's id twice a second: a pipe would stay open in a forked child of the parent.
"""

from __future__ import annotations

import os
import sys
import time

import psutil

POLL_S = 0.5


def main(parent: int, name: str, mark: str) -> None:
    """Wait, then kill until nothing is left."""
    while os.getppid() == parent:
        time.sleep(POLL_S)
    while left := _marked(name, mark):
        for process in left:
            try:
                process.kill()
            except psutil.Error:
                continue
        time.sleep(0.1)


def _marked(name: str, mark: str) -> list[psutil.Process]:
    found = []
    for process in psutil.process_iter():
        try:
            running = process.status() != psutil.STATUS_ZOMBIE
            if running and process.environ().get(name, "").startswith(mark):
                found.append(process)
        except (psutil.Error, OSError):
            continue
    return found


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2], sys.argv[3])
