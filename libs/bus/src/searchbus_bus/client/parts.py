"""Bodies larger than one message (proto/README.md §5.2): replies by credit, requests are pulled."""

from __future__ import annotations

import asyncio
import hashlib
import re
from dataclasses import dataclass, field
from typing import Any

from searchbus_contracts import ErrorCode, Fault
from searchbus_contracts.headers import CHUNK, SIZE
from searchbus_contracts.subjects import is_credit_subject

from .. import telemetry
from ..tasks import wait_for_event
from ..transport import Message
from .transit import Reservation, Transit, TransitBudget, TransitFullError

PART_BYTES = 512 * 1024
"""Size of a part; 5 MiB in such parts took 11 to 20 ms."""
MAX_BODY_BYTES = 64 * 1024 * 1024
"""A larger body is refused with invalid_argument before any part is requested."""
WINDOW_PARTS = 4
"""Parts of one reply that may be on their way to its receiver."""
CREDIT_S = 10.0
"""A receiver that gives no credit for so long is gone: a busy one takes parts as they come."""
_HEADER_BYTES = 8 * 1024
_MARK = re.compile(r"(\d{1,5})/(\d{1,5}) (\d{1,10}) ([0-9a-f]{64})")
_SIZE = re.compile(r"[0-9]{1,10}")


def part_size_bytes(max_payload_bytes: int) -> int:
    """How many bytes of a body fit into one message under the broker's limit."""
    return max(1, min(PART_BYTES, max_payload_bytes - _HEADER_BYTES))


def split(body: bytes, size_bytes: int) -> list[memoryview]:
    """Cut a body into parts of `size_bytes`; the last may be shorter."""
    view = memoryview(body)
    return [view[start : start + size_bytes] for start in range(0, len(body), size_bytes)]


def _malformed(what: str) -> Fault:
    return Fault(ErrorCode.INTERNAL, f"{what} Report it to the operator.")


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
            raise _malformed("A part of the reply has a malformed Chunk header.")
        return cls(int(match[1]), int(match[2]), int(match[3]), match[4])


class Credit:
    """What the receiver of a large reply allows its sender; no credit `given`: every part."""

    def __init__(self, *, given: bool) -> None:
        self._parts = 0 if given else MAX_BODY_BYTES
        self._ended = False
        self._changed = asyncio.Event()

    def take(self, message: Message) -> None:
        """Read a credit: how many parts to send in all; all else (no responders) ends it."""
        digits = message.data[:8]
        parts = int(digits) if digits.isdigit() else 0
        self._parts = max(self._parts, parts)
        self._ended = self._ended or not parts
        self._changed.set()

    async def covers(self, index: int) -> bool:
        """Wait until a part may be sent; False where the receiver takes no more, or is gone."""
        while not self._ended and self._parts <= index:
            self._changed.clear()
            self._ended = not await wait_for_event(self._changed, CREDIT_S) or self._ended
        return not self._ended


@dataclass(slots=True)
class Assembly:
    """Collects the parts of one body and checks size and hash, which is made as they come."""

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
        """Add a part; the body once it is whole, else None. Raises Fault(internal) for a misfit."""
        if not 0 <= index < self.count:
            raise _malformed("A part of a message lies outside of the message.")
        self._held_bytes += len(data) - len(self._parts.get(index, b""))
        if self._held_bytes > self.size_bytes:
            raise _malformed("The parts of a message are larger than the message.")
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
            raise _malformed("The parts of a message do not fit together.")
        return body


class LargeReply:
    """A large reply on its way: admitted by the budget (`expected` was counted before), then
    received by credit, for which its sender waits at `credit_subject` (empty: it does not)."""

    def __init__(self, budget: TransitBudget, caller: str, expected: Reservation | None) -> None:
        self.credit_subject = ""
        self._budget = budget
        self._caller = caller
        self._expected = expected
        self._reservation: Reservation | None = None
        self._size_bytes = 0
        self._assembly: Assembly | None = None
        self._allowed = 0

    def announced(self, message: Message) -> None:
        """Admit it before its parts; raises Fault(internal) if malformed, TransitFullError."""
        digits = message.headers[SIZE]
        if not _SIZE.fullmatch(digits) or not is_credit_subject(message.reply):
            # To another subject, a worker could make this process publish what only this one may.
            raise _malformed("The announcement of a large reply is malformed.")
        if not self.credit_subject:
            self.credit_subject = message.reply
            self._reserve(int(digits))

    def add(self, message: Message) -> bytes | None:
        """Add one part; the whole body once it is complete. Raises as `announced`."""
        mark = ChunkMark.parse(message.headers[CHUNK])
        if self._assembly is None:
            self._assembly = Assembly(mark.count, mark.size_bytes, mark.sha256)
            if self._reservation is None:  # a worker may announce none
                self._reserve(mark.size_bytes)
            if mark.size_bytes != self._size_bytes:
                raise _malformed("A large reply has another size than was announced.")
        return self._assembly.add(mark.index, message.data)

    def new_credit(self) -> int:
        """How many parts the sender may send from now on; 0 where that was sent already."""
        received = self._assembly.received if self._assembly is not None else 0
        allowed = received + WINDOW_PARTS
        # Half a window at once: each credit is a message.
        if not self.credit_subject or allowed - self._allowed < WINDOW_PARTS // 2:
            return 0
        self._allowed = allowed
        return allowed

    def end(self, *, keep_in: Transit | None) -> None:
        """Give its bytes back, at once or at the end of a block."""
        if self._reservation is None:
            return
        if keep_in is not None:
            keep_in.keep(self._reservation)
        else:
            self._reservation.release()

    def _reserve(self, size_bytes: int) -> None:
        self._size_bytes = size_bytes
        self._reservation = self._budget.reserve(self._caller, size_bytes)
        if self._expected is not None:  # only now: what waits for its room comes after this reply
            self._expected.release()
        if self._reservation is None:
            telemetry.count_error("large_reply")
            raise TransitFullError(size_bytes)
