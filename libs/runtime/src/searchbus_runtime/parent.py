"""A process that ends when its parent ends, also when the parent is killed. Linux only.

Elsewhere the function does nothing, and processes end with the process group of the terminal.
"""

from __future__ import annotations

import ctypes
import signal
import sys

__all__ = ["end_with_parent"]

_PR_SET_PDEATHSIG = 1
# Loaded at import: between fork and exec, where `end_with_parent` may run, nothing is to be loaded.
_libc = ctypes.CDLL(None) if sys.platform == "linux" else None


def end_with_parent(number: int = signal.SIGTERM) -> None:
    """Have the kernel send this process a signal when its parent ends.

    It may be the `preexec_fn` of a subprocess. A process that this one starts must call it again.
    """
    if _libc is not None:
        _libc.prctl(_PR_SET_PDEATHSIG, number)
