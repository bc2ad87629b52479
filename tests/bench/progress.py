"""What a bench is doing, on standard error; results go to standard output."""

from __future__ import annotations

import sys
import time

_STARTED_S = time.monotonic()


def progress(text: str) -> None:
    """Write a line with the seconds since the start."""
    sys.stderr.write(f"[{time.monotonic() - _STARTED_S:5.0f} s] {text}\n")
    sys.stderr.flush()
