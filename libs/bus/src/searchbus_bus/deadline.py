"""The remaining time of a request, as it crosses processes (proto/README.md §4.1).

``Timeout-Ms`` is the time left when the request was sent; ``Deadline-Ms`` is the same moment on the
wall clock. The smaller of the two counts: the first is safe against clocks that differ, the second
ends a message that waited in a buffer.
"""

from __future__ import annotations

import time
from collections.abc import Mapping

from msgspec import Struct

from searchbus_contracts import ErrorCode, Fault
from searchbus_contracts.headers import DEADLINE_MS, TIMEOUT_MS

__all__ = ["DEFAULT_TIMEOUT_S", "Deadline"]

DEFAULT_TIMEOUT_S = 30.0
"""The budget of a request without either header, in seconds."""


class Deadline(Struct, frozen=True):
    """A moment on this process's monotonic clock, in seconds."""

    at_s: float

    @classmethod
    def after(cls, timeout_s: float) -> Deadline:
        """The moment `timeout_s` seconds from now."""
        return cls(time.monotonic() + timeout_s)

    @classmethod
    def from_headers(cls, headers: Mapping[str, str]) -> Deadline:
        """Read a request's headers; raises Fault(invalid_argument) for a malformed one."""
        left_s = [DEFAULT_TIMEOUT_S]
        if TIMEOUT_MS in headers:
            left_s = [_ms(headers, TIMEOUT_MS) / 1000]
        if DEADLINE_MS in headers:
            left_s.append(_ms(headers, DEADLINE_MS) / 1000 - time.time())
        return cls.after(min(left_s))

    @property
    def remaining_s(self) -> float:
        """Seconds left; negative once it has passed."""
        return self.at_s - time.monotonic()

    def to_headers(self) -> dict[str, str]:
        """Both headers, for a request sent now."""
        left_ms = max(0, int(self.remaining_s * 1000))
        return {TIMEOUT_MS: str(left_ms), DEADLINE_MS: str(int(time.time() * 1000) + left_ms)}


def _ms(headers: Mapping[str, str], name: str) -> int:
    value = headers[name]
    if not (value.isascii() and value.isdigit() and len(value) <= 16):
        raise Fault(
            ErrorCode.INVALID_ARGUMENT, f"Header {name} is not a number of milliseconds. Send one."
        )
    return int(value)
