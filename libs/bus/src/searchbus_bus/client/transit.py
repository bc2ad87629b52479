"""How many bytes of large replies a process receives and passes on at the same time.

budget = TransitBudget(total_bytes=32 * 2**20, caller_bytes=16 * 2**20)
with Transit("alice"):
    ...                    # large replies that arrive here count until the end of the block
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from contextvars import ContextVar, Token

from searchbus_contracts import ErrorCode, Fault

from .. import telemetry

DEFAULT_BYTES = 64 * 1024 * 1024
"""NATS disconnects a client for which this many bytes are pending."""
LARGE_BYTES = 512 * 1024
"""A reply of more comes in parts."""
EXPECTED_TIMES = 4
"""Replies of so many times a caller's limit may be expected: not all come at the same moment."""
_NEWEST_SHARE = 0.25
"""Share of the newest reply in the usual size of its kind."""
_MOST_KINDS = 1_000


class TransitBudget:
    """How many bytes of large replies a process receives and passes on at the same time.

    A large reply is admitted when its size is announced, before any part of it is sent. What does
    not fit is refused at once and never waits, so the first to be announced is the first to be
    admitted. A reply larger than a limit is admitted while nothing else counts against that limit.
    Replies of one message do not count.

    A request whose reply is usually large is refused before it is sent, where the usual replies to
    all that its caller has sent would be several times the caller's limit. A worker would do its
    work for nothing, and the refusal would come after that.

    Args:
        total_bytes: limit of all callers together.
        caller_bytes: limit of one caller.
    """

    def __init__(self, total_bytes: int = DEFAULT_BYTES, caller_bytes: int = DEFAULT_BYTES) -> None:
        self.total_bytes = total_bytes
        self.caller_bytes = caller_bytes
        self.used_bytes = 0
        self._used_by: Counter[str] = Counter()
        self._expected_by: Counter[str] = Counter()
        self._usual_bytes: dict[str, float] = {}

    def reserve(self, caller: str, size_bytes: int) -> Reservation | None:
        """Count a reply that begins; None where it does not fit."""
        for used, limit in (
            (self.used_bytes, self.total_bytes),
            (self._used_by[caller], self.caller_bytes),
        ):
            if used and used + size_bytes > limit:
                return None
        self.used_bytes += size_bytes
        return Reservation(self._used_by, caller, size_bytes, on_release=self._release)

    def expect(self, caller: str, kind: str) -> Reservation | None:
        """Count a request by the usual size of replies to its kind; None where that is small.

        Raises:
            TransitFullError: there are too many of this caller.
        """
        size_bytes = int(self._usual_bytes.get(kind, 0))
        if not size_bytes:
            return None
        used = self._used_by[caller] + self._expected_by[caller]
        if used and used + size_bytes > EXPECTED_TIMES * self.caller_bytes:
            telemetry.count_error("large_reply")
            raise TransitFullError(size_bytes)
        return Reservation(self._expected_by, caller, size_bytes)

    def note(self, kind: str, size_bytes: int) -> None:
        """Learn how large the replies to a kind of requests are; small ones are not kept."""
        before = self._usual_bytes.pop(kind, None)
        usual = size_bytes if before is None else before + (size_bytes - before) * _NEWEST_SHARE
        if usual > LARGE_BYTES:
            if len(self._usual_bytes) >= _MOST_KINDS:
                del self._usual_bytes[next(iter(self._usual_bytes))]
            self._usual_bytes[kind] = usual

    def _release(self, size_bytes: int) -> None:
        self.used_bytes -= size_bytes


class Reservation:
    """The bytes of one reply, counted for a caller.

    Args:
        on_release: called with them when they are given back.
    """

    __slots__ = ("_bytes_by", "_caller", "_on_release", "_size_bytes")

    def __init__(
        self,
        bytes_by: Counter[str],
        caller: str,
        size_bytes: int,
        *,
        on_release: Callable[[int], None] = lambda _: None,
    ) -> None:
        self._bytes_by = bytes_by
        self._caller = caller
        self._size_bytes = size_bytes
        self._on_release = on_release
        if size_bytes:
            bytes_by[caller] += size_bytes

    def release(self) -> None:
        """Give the bytes back; a second time changes nothing."""
        size_bytes, self._size_bytes = self._size_bytes, 0
        if size_bytes:
            self._on_release(size_bytes)
            self._bytes_by[self._caller] -= size_bytes
            if not self._bytes_by[self._caller]:
                del self._bytes_by[self._caller]


class Transit:
    """Keeps the reservations of replies that arrive inside until the end of the block.

    Args:
        caller: whose limit counts; by default the subject of each request's actor.

    Attributes:
        held: the reservations.
    """

    __slots__ = ("_ended", "_token", "caller", "held")
    _token: Token[Transit | None]

    def __init__(self, caller: str = "") -> None:
        self.caller = caller
        self.held: list[Reservation] = []
        self._ended = False

    def __enter__(self) -> Transit:
        self._token = _current.set(self)
        return self

    def __exit__(self, kind: object, error: object, traceback: object) -> None:
        _current.reset(self._token)
        self._ended = True
        for reservation in self.held:
            reservation.release()

    def keep(self, reservation: Reservation) -> None:
        """Keep a reservation until the end of the block; release it if a task outlives that."""
        if self._ended:
            reservation.release()
        else:
            self.held.append(reservation)

    @staticmethod
    def name(caller: str) -> None:
        """Name the caller of the current block, if there is one."""
        current = _current.get()
        if current is not None:
            current.caller = caller

    @staticmethod
    def current() -> Transit | None:
        """The innermost block that the current task is in."""
        return _current.get()


_current: ContextVar[Transit | None] = ContextVar("transit", default=None)


class TransitFullError(Fault):
    """A large reply does not fit into the budget now."""

    def __init__(self, size_bytes: int) -> None:
        super().__init__(
            ErrorCode.OVERLOADED,
            f"Too many large answers are being sent at the same time; this one has about "
            f"{size_bytes / 1e6:.1f} MB. Try again in a second, or ask for less.",
            retry_after_ms=1000,
        )
