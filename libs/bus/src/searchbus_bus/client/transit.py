"""How many bytes of large replies a process receives and passes on at the same time."""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import Callable
from contextvars import ContextVar, Token
from functools import partial

from searchbus_contracts import ErrorCode, Fault

from .. import telemetry

DEFAULT_BYTES = 64 * 1024 * 1024
"""NATS disconnects a client for which this many bytes are pending."""
LARGE_BYTES = 512 * 1024
"""A reply of more comes in parts."""
WAIT_S = 0.25
"""For so long a request waits until its usual reply fits into the limit of its caller."""
WAITING_TIMES = 4
"""Requests wait for replies of so many times a caller's limit; more would wait for nothing."""
_NEWEST_SHARE = 0.25
"""Share of the newest reply in the usual size of its kind."""
_MOST_KINDS = 1_000


class TransitBudget:
    """How many bytes of large replies a process receives and passes on at the same time.

    A large reply is admitted when its size is announced, before any part of it is sent. What does
    not fit is refused at once and never waits, so the first to be announced is the first to be
    admitted. A reply larger than a limit is admitted while nothing else counts against that limit.
    Replies of one message do not count.

    A request whose reply is usually large waits for a moment until the usual one fits into its
    caller's limit: else a worker would do its work for nothing.
    """

    def __init__(self, total_bytes: int = DEFAULT_BYTES, caller_bytes: int = DEFAULT_BYTES) -> None:
        self.total_bytes = total_bytes
        self.caller_bytes = caller_bytes
        self.used_bytes = 0
        self._used_by: Counter[str] = Counter()
        self._expected_by: Counter[str] = Counter()
        self._waiting_by: dict[str, deque[tuple[asyncio.Future[Reservation], int]]] = {}
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
        return self._count(self._used_by, caller, size_bytes)

    async def expect(self, caller: str, kind: str, *, wait_s: float) -> Reservation | None:
        """Count a request by the usual size of replies to its kind, once that fits (`wait_s` at
        most); None where it is small. Raises TransitFullError: not in time, or too many wait."""
        size_bytes = int(self._usual_bytes.get(kind, 0))
        if not size_bytes:
            return None
        waiting = self._waiting_by.get(caller)
        if waiting is None and self._may_expect(caller, size_bytes):
            return self._count(self._expected_by, caller, size_bytes)
        waiting_bytes = sum(size for _, size in waiting or ())
        if waiting_bytes + size_bytes <= WAITING_TIMES * self.caller_bytes:
            reservation = await self._turn(caller, size_bytes, min(wait_s, WAIT_S))
            if reservation is not None:
                return reservation
        telemetry.count_error("large_reply")
        raise TransitFullError(size_bytes)

    def note(self, kind: str, size_bytes: int) -> None:
        """Learn how large the replies to a kind of requests are; small ones are not kept."""
        before = self._usual_bytes.pop(kind, None)
        usual = size_bytes if before is None else before + (size_bytes - before) * _NEWEST_SHARE
        if usual > LARGE_BYTES:
            if len(self._usual_bytes) >= _MOST_KINDS:
                del self._usual_bytes[next(iter(self._usual_bytes))]
            self._usual_bytes[kind] = usual

    async def _turn(self, caller: str, size_bytes: int, wait_s: float) -> Reservation | None:
        """Wait in the queue of a caller; None where the time passed first."""
        loop = asyncio.get_running_loop()
        turn: asyncio.Future[Reservation] = loop.create_future()
        place = (turn, size_bytes)
        self._waiting_by.setdefault(caller, deque()).append(place)
        timer = loop.call_later(wait_s, turn.cancel)
        try:
            await asyncio.wait([turn])
        except asyncio.CancelledError:
            if not turn.cancel() and not turn.cancelled():  # its turn came at the same moment
                turn.result().release()
            raise
        finally:
            timer.cancel()
            if turn.cancelled():
                self._waiting_by[caller].remove(place)
                self._admit_waiting(caller)
        return None if turn.cancelled() else turn.result()

    def _may_expect(self, caller: str, size_bytes: int) -> bool:
        used = self._used_by[caller] + self._expected_by[caller]
        return not used or used + size_bytes <= self.caller_bytes

    def _admit_waiting(self, caller: str) -> None:
        """Send the requests of a caller on for which there is room, in the order they came."""
        waiting = self._waiting_by.get(caller)
        if waiting is None:
            return
        for turn, size_bytes in tuple(waiting):
            if turn.cancelled():  # it is about to leave
                continue
            if not self._may_expect(caller, size_bytes):
                break
            waiting.remove((turn, size_bytes))
            turn.set_result(self._count(self._expected_by, caller, size_bytes))
        if not waiting:
            del self._waiting_by[caller]

    def _count(self, bytes_by: Counter[str], caller: str, size_bytes: int) -> Reservation:
        if size_bytes:  # otherwise each caller would stay in the table
            bytes_by[caller] += size_bytes
        return Reservation(size_bytes, partial(self._give_back, bytes_by, caller))

    def _give_back(self, bytes_by: Counter[str], caller: str, size_bytes: int) -> None:
        if bytes_by is self._used_by:
            self.used_bytes -= size_bytes
        bytes_by[caller] -= size_bytes
        if not bytes_by[caller]:
            del bytes_by[caller]
        self._admit_waiting(caller)


class Reservation:
    """The bytes of one reply, counted for a caller until they are given back (`on_release`)."""

    __slots__ = ("_on_release", "_size_bytes")

    def __init__(self, size_bytes: int, on_release: Callable[[int], None]) -> None:
        self._size_bytes = size_bytes
        self._on_release = on_release

    def release(self) -> None:
        """Give the bytes back; a second time changes nothing."""
        size_bytes, self._size_bytes = self._size_bytes, 0
        if size_bytes:
            self._on_release(size_bytes)


class Transit:
    """Keeps the reservations (`held`) of replies that arrive inside until the end of the block;
    they count for `caller`, by default the subject of each request's actor."""

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
