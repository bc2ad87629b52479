"""A process that ends when its parent ends, also when the parent is killed; adopting orphans.

On Linux the kernel does it (`end_with_parent`). Elsewhere a second process watches a pipe that the
parent holds open, and which the kernel closes with the parent:

    python -m searchbus_runtime.parent nats-server -c server.conf    # standard input is that pipe
"""

from __future__ import annotations

import ctypes
import os
import select
import signal
import sys

KERNEL_ENDS_CHILDREN = sys.platform == "linux"
_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_WATCH_INTERVAL_S = 1.0
# Loaded at import: between fork and exec, where `end_with_parent` may run, nothing is to be loaded.
_libc = ctypes.CDLL(None) if KERNEL_ENDS_CHILDREN else None


def end_with_parent(number: int = signal.SIGTERM) -> None:
    """Have the kernel send this process a signal when its parent ends; nothing but on Linux.

    It may be the `preexec_fn` of a subprocess. A process that this one starts must call it again.
    """
    if _libc is not None:
        _libc.prctl(_PR_SET_PDEATHSIG, number)


def adopt_orphans(adopt: bool) -> bool:
    """Whether orphaned descendants become this process's children; False: the system cannot."""
    return _libc is not None and _libc.prctl(_PR_SET_CHILD_SUBREAPER, int(adopt), 0, 0, 0) == 0


def run_watched(command: list[str]) -> None:
    """Become the command, which gets SIGTERM when standard input ends; raises OSError, and does not
    return. The process keeps its id; the watcher is a child of it, and ends with it."""
    pid = os.getpid()
    if os.fork() == 0:
        _watch(pid)
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, sys.stdin.fileno())
    os.execvp(command[0], command)  # noqa: S606


def _watch(pid: int) -> None:
    """Wait for the end of standard input or of the process, whichever comes first."""
    # What the process prints ends with the process.
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, sys.stdout.fileno())
    os.dup2(null, sys.stderr.fileno())
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    while os.getppid() == pid:
        ended, _, _ = select.select([sys.stdin], [], [], _WATCH_INTERVAL_S)
        if ended and os.getppid() == pid:
            os.kill(pid, signal.SIGTERM)
            break
    os._exit(0)


if __name__ == "__main__":
    run_watched(sys.argv[1:])
