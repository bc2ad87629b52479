"""Bytes that callers hold in memory at the same time: limits for all of them and for each one."""

from __future__ import annotations

import threading
from collections import Counter


class HeldBytes:
    """Counts bytes of all callers against `most_bytes`, of each one against `caller_bytes`.

    with Holder(held, "alice") as holder:
        holder.take(4096)    # False where they do not fit
    """

    def __init__(self, most_bytes: int, caller_bytes: int) -> None:
        self.most_bytes = most_bytes
        self.caller_bytes = caller_bytes
        self.used_bytes = 0
        self.used_by: Counter[str] = Counter()
        self.lock = threading.Lock()


class Holder:
    """One thing that a caller has here until the end of the block; threads may `take` too.

    Attributes:
        size_bytes: taken so far.
    """

    def __init__(self, held: HeldBytes, caller: str) -> None:
        self.size_bytes = 0
        self._held = held
        self._caller = caller
        self._ended = False

    def __enter__(self) -> Holder:
        return self

    def __exit__(self, *_: object) -> None:
        held = self._held
        with held.lock:
            self._ended = True
            held.used_bytes -= self.size_bytes
            held.used_by[self._caller] -= self.size_bytes
            if not held.used_by[self._caller]:  # otherwise each caller would stay in the table
                del held.used_by[self._caller]

    def take(self, size_bytes: int) -> bool:
        """Count more bytes; False, and nothing is counted, where they do not fit."""
        held = self._held
        with held.lock:
            if (
                self._ended  # a thread that outlives the block would never give them back
                or held.used_bytes + size_bytes > held.most_bytes
                or held.used_by[self._caller] + size_bytes > held.caller_bytes
            ):
                return False
            held.used_bytes += size_bytes
            held.used_by[self._caller] += size_bytes
            self.size_bytes += size_bytes
            return True
