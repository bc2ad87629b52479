"""Bodies larger than one message (proto/README.md §5.2).

A large *reply* is sent by credit: the worker announces it, and then sends as many parts as the
receiver has allowed, to the reply subject in order, each with the header
``Chunk: <index>/<count> <size_bytes> <sha256>``. A large *request* is pulled, because a queue
group would spread pushed parts over several workers: the request is sent empty with a ``Parts``
header, and the worker that received it requests the parts from the caller by number.
"""

from __future__ import annotations

import asyncio
import hashlib
import re
from dataclasses import dataclass, field
from typing import Any

from searchbus_contracts import ErrorCode, Fault

from .transport import Message

__all__ = [
    "MAX_BODY_BYTES",
    "PART_BYTES",
    "WINDOW_PARTS",
    "Assembly",
    "ChunkMark",
    "Credit",
    "part_size_bytes",
    "split",
]

PART_BYTES = 512 * 1024
"""Size of a part; 5 MiB in such parts took 11 to 20 ms."""
MAX_BODY_BYTES = 64 * 1024 * 1024
"""A larger body is refused with invalid_argument before any part is requested."""
WINDOW_PARTS = 4
"""Parts of one reply that may be on their way to its receiver."""
_HEADER_BYTES = 8 * 1024
_MARK = re.compile(r"(\d{1,5})/(\d{1,5}) (\d{1,10}) ([0-9a-f]{64})")


def part_size_bytes(max_payload_bytes: int) -> int:
    """How many bytes of a body fit into one message under the broker's limit."""
    return max(1, min(PART_BYTES, max_payload_bytes - _HEADER_BYTES))


def split(body: bytes, size_bytes: int) -> list[memoryview]:
    """Cut a body into parts of `size_bytes`; the last may be shorter."""
    view = memoryview(body)
    return [view[start : start + size_bytes] for start in range(0, len(body), size_bytes)]


@dataclass(frozen=True, slots=True)
class ChunkMark:
    """The `Chunk` header: the part that a message carries, and the whole body's size and hash."""

    index: int
    count: int
    size_bytes: int
    sha256: str

    def __str__(self) -> str:
        return f"{self.index}/{self.count} {self.size_bytes} {self.sha256}"

    @classmethod
    def parse(cls, value: str) -> ChunkMark:
        """Parse the header; raises Fault(internal) for a malformed one."""
        match = _MARK.fullmatch(value)
        if match is None:
            raise Fault(
                ErrorCode.INTERNAL,
                "A part of the reply has a malformed Chunk header. Report it to the operator.",
            )
        return cls(int(match[1]), int(match[2]), int(match[3]), match[4])


class Credit:
    """What the receiver of a large reply allows its sender."""

    def __init__(self) -> None:
        self._parts = 0
        self._ended = False
        self._changed = asyncio.Event()

    def allow_all(self) -> None:
        """Allow every part: the receiver gives no credit."""
        self._parts = MAX_BODY_BYTES

    def take(self, message: Message) -> None:
        """Read a credit: how many parts may be sent in all; anything else ends the transfer.

        The broker's status "no responders" does too: the receiver is gone.
        """
        digits = message.data[:8]
        parts = int(digits) if digits.isdigit() else 0
        self._parts = max(self._parts, parts)
        self._ended = self._ended or not parts
        self._changed.set()

    async def covers(self, index: int) -> bool:
        """Wait until a part may be sent; False where the receiver takes no more."""
        while not self._ended and self._parts <= index:
            self._changed.clear()
            await self._changed.wait()
        return not self._ended


@dataclass(slots=True)
class Assembly:
    """Collects the parts of one body and checks size and hash.

    Parts in order are hashed as they come, while the next ones are on their way.
    """

    count: int
    size_bytes: int
    sha256: str
    _parts: dict[int, bytes] = field(default_factory=dict)
    _held_bytes: int = 0
    _hash: Any = field(default_factory=hashlib.sha256)
    _hashed: int = 0

    def __post_init__(self) -> None:
        if self.size_bytes > MAX_BODY_BYTES:
            limit = MAX_BODY_BYTES // 1024 // 1024
            raise Fault(
                ErrorCode.INVALID_ARGUMENT, f"The message is larger than {limit} MiB. Send less."
            )

    @property
    def received(self) -> int:
        """How many parts have come."""
        return len(self._parts)

    def add(self, index: int, data: bytes) -> bytes | None:
        """Add one part; returns the whole body once it is complete, else None.

        Raises:
            Fault: internal, when the parts do not fit together.
        """
        if not 0 <= index < self.count:
            raise Fault(
                ErrorCode.INTERNAL,
                "A part of a message lies outside of the message. Report it to the operator.",
            )
        self._held_bytes += len(data) - len(self._parts.get(index, b""))
        if self._held_bytes > self.size_bytes:
            raise Fault(
                ErrorCode.INTERNAL,
                "The parts of a message are larger than the message. Report it to the operator.",
            )
        self._parts[index] = data
        if index < self._hashed:
            self._hash = None  # a part again, perhaps another one: the body is hashed as a whole
        while self._hash is not None and self._hashed in self._parts:
            self._hash.update(self._parts[self._hashed])
            self._hashed += 1
        if len(self._parts) < self.count:
            return None
        body = b"".join(self._parts[i] for i in range(self.count))
        found = self._hash or hashlib.sha256(body)
        if len(body) != self.size_bytes or found.hexdigest() != self.sha256:
            raise Fault(
                ErrorCode.INTERNAL,
                "The parts of a message do not fit together. Report it to the operator.",
            )
        return body
