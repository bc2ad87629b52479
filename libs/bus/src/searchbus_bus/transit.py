"""How many bytes of large replies a process receives and passes on at the same time.

    with Transit("alice"):  # one HTTP request of the edge
        reply = await bus.request(...)  # a large reply counts against the budget,
        await send(reply)  # until the end of the block

A large reply is admitted when its size is announced, before any part of it is sent. What does not
fit is refused at once and never waits, so the first to be announced is the first to be admitted.
Replies of one message do not count.
"""

from __future__ import annotations

from contextvars import ContextVar, Token
from types import TracebackType

__all__ = ["Reservation", "Transit", "TransitBudget"]

DEFAULT_BYTES = 64 * 1024 * 1024
"""NATS disconnects a client for which this many bytes are pending."""


class TransitBudget:
    """The bytes of one process.

    A reply larger than a limit is admitted while nothing else counts against that limit.

    Args:
        total_bytes: of all callers together.
        caller_bytes: of one caller.
    """

    def __init__(self, total_bytes: int = DEFAULT_BYTES, caller_bytes: int = DEFAULT_BYTES) -> None:
        self.total_bytes = total_bytes
        self.caller_bytes = caller_bytes
        self._used_bytes = 0
        self._used_by: dict[str, int] = {}

    @property
    def used_bytes(self) -> int:
        """What is reserved now."""
        return self._used_bytes

    def reserve(self, caller: str, size_bytes: int) -> Reservation | None:
        """Count a reply that begins; None where it does not fit."""
        used_by_caller = self._used_by.get(caller, 0)
        for used, limit in (
            (self._used_bytes, self.total_bytes),
            (used_by_caller, self.caller_bytes),
        ):
            if used and used + size_bytes > limit:
                return None
        self._used_bytes += size_bytes
        self._used_by[caller] = used_by_caller + size_bytes
        return Reservation(self, caller, size_bytes)

    def _release(self, caller: str, size_bytes: int) -> None:
        self._used_bytes -= size_bytes
        self._used_by[caller] -= size_bytes
        if not self._used_by[caller]:
            del self._used_by[caller]


class Reservation:
    """The bytes of one reply."""

    __slots__ = ("_budget", "_caller", "_size_bytes")

    def __init__(self, budget: TransitBudget, caller: str, size_bytes: int) -> None:
        self._budget = budget
        self._caller = caller
        self._size_bytes = size_bytes

    def release(self) -> None:
        """Give the bytes back; a second time changes nothing."""
        if self._size_bytes:
            self._budget._release(self._caller, self._size_bytes)
            self._size_bytes = 0


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

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
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
