"""What one server may send, so that the calls of others do not wait for it.

budget = Budget("files")
await budget.pace(len(line))    # waits where the server sends faster than it may
budget.takes("log", 300)        # False: one message too many, which is dropped and counted

Answers are never dropped: they are read more slowly, and the server waits for its pipe or socket.
Messages that no call waits for are dropped. A server of which too many are dropped is held: its
connections are closed, and opened again after a pause.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal

import anyio

from ..metrics import count

Dropped = Literal["answer", "event", "log"]

_COST_BYTES_PER_S, _COST_BYTES = 8 * 2**20, 32 * 2**20
"""The rate and the burst of all that a server sends, with what the costs below add."""
_MESSAGE_COST_BYTES = 2048
"""Our work for one message, in bytes of a long one."""
VALUE_COST_BYTES = 32
"""Our work for one value of JSON."""
_TURN_COST_BYTES, _TURNS_BYTES_PER_S = 64 * 1024, 64 * 2**20
"""After so much, other servers have their turn. The rate of a burst leaves them most of the loop's
time: a call of theirs needs several turns, each of which would wait for one of the burst."""
_EVENTS_PER_S, _EVENTS = 500, 1_000
_LOG_BYTES_PER_S, _LOG_BYTES = 64 * 1024, 512 * 1024
MAX_EVENT_BYTES = 64 * 1024
"""The limit of a message that is not an answer; progress or a log line is far smaller."""
_LEAST_BYTES, _ANSWER_LEAST_BYTES = 512, 2**20
"""What a dropped message counts for at least; a refused answer was looked through before."""
_DROPPED_BYTES_PER_S, _DROPPED_BYTES = 2**20, 20 * 2**20
"""Above it the server is held. Two thousand notices of progress a second are below."""
HOLD_S = 60.0
STREAM_PAUSE_S = 0.05
"""Between two requests for a stream: those of all calls of a server may begin anew together."""


class _Bucket:
    def __init__(self, per_s: float, burst: float) -> None:
        self._per_s, self._burst = per_s, burst
        self._left, self._at_s = burst, time.monotonic()

    def _fill(self) -> None:
        now_s = time.monotonic()
        self._left = min(self._burst, self._left + (now_s - self._at_s) * self._per_s)
        self._at_s = now_s

    def owe(self, amount: float) -> float:
        """Take it in any case; seconds until the bucket is not in debt any more."""
        self._fill()
        self._left -= amount
        return max(0.0, -self._left / self._per_s)

    def take(self, amount: float) -> bool:
        """Take it where the bucket holds that much."""
        self._fill()
        if self._left < amount:
            return False
        self._left -= amount
        return True


class Budget:
    """The budget of one server, for all of its connections.

    Attributes:
        dropped: messages that were dropped.
        calm_until_s: until when its notices do not have its lists read; on the monotonic clock.
    """

    def __init__(self, server: str) -> None:
        self.dropped = 0
        self.calm_until_s = 0.0
        self._next_stream_s = 0.0
        self._server = server
        self._cost = _Bucket(_COST_BYTES_PER_S, _COST_BYTES)
        self._events = _Bucket(_EVENTS_PER_S, _EVENTS)
        self._log_bytes = _Bucket(_LOG_BYTES_PER_S, _LOG_BYTES)
        self._dropped_bytes = _Bucket(_DROPPED_BYTES_PER_S, _DROPPED_BYTES)
        self._turn_bytes = 0.0
        self._held_until_s = 0.0
        self._problem = ""
        self._connections: set[anyio.CancelScope] = set()

    async def pace(self, size_bytes: int, messages: float = 1.0) -> None:
        """Wait until what was read, so many messages, may be looked at."""
        cost = size_bytes + messages * _MESSAGE_COST_BYTES
        wait_s = self._cost.owe(cost)
        self._turn_bytes += cost
        if wait_s or self._turn_bytes > _TURN_COST_BYTES:
            pause_s = max(wait_s, self._turn_bytes / _TURNS_BYTES_PER_S)
            self._turn_bytes = 0
            await asyncio.sleep(pause_s)

    async def pace_stream(self) -> None:
        """Wait until a stream may be asked for: a server says after which time that is done again
        where one ended, after none, if it likes."""
        now_s = time.monotonic()
        start_s = max(now_s, self._next_stream_s)
        self._next_stream_s = start_s + STREAM_PAUSE_S
        await asyncio.sleep(start_s - now_s)

    def note_values(self, number: int) -> None:
        """Count the values of a message, before they are parsed."""
        cost = number * VALUE_COST_BYTES
        self._turn_bytes += cost
        self._cost.owe(cost)

    def takes(self, kind: Literal["event", "log"], size_bytes: int) -> bool:
        """Whether a message that is not an answer is passed on; it is dropped otherwise."""
        if (
            size_bytes <= MAX_EVENT_BYTES
            and self._events.take(1)
            and (kind == "event" or self._log_bytes.take(size_bytes))
        ):
            return True
        self.drop(kind, size_bytes)
        return False

    def drop(self, kind: Dropped, size_bytes: int) -> None:
        """Count a message that is dropped, and hold the server where these are too many."""
        least_bytes = _ANSWER_LEAST_BYTES if kind == "answer" else _LEAST_BYTES
        self.dropped += 1
        count("dropped", server=self._server, kind=kind)
        if not self._dropped_bytes.take(max(size_bytes, least_bytes)) and not self.problem:
            self._held_until_s = time.monotonic() + HOLD_S
            self._problem = (
                f"it is held for {HOLD_S:.0f} s, because it sent far more than a server may "
                f"(the last of {self.dropped} dropped messages: {kind})"
            )
            for connection in self._connections:
                connection.cancel()

    @property
    def held_s(self) -> float:
        """Seconds until it may be connected again."""
        return max(0.0, self._held_until_s - time.monotonic())

    @property
    def problem(self) -> str:
        """Why it is held; empty where it is not."""
        return self._problem if self.held_s else ""

    @contextmanager
    def ending(self, connection: anyio.CancelScope) -> Iterator[None]:
        """Around a connection: cancel its scope once the server is held."""
        self._connections.add(connection)
        try:
            yield
        finally:
            self._connections.discard(connection)
