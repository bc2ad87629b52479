"""Clients as they come to this edge, for the console; nothing is kept while nobody watches."""

from __future__ import annotations

import time
from collections import OrderedDict

from msgspec import Struct

from searchbus_contracts.visible import visible

from ..http.head import Received

_MOST = 20
_AGAIN_S = 60.0
"""A client that was silent for this time arrives again."""
_MAX_CHARS = 120


class Arrival(Struct, frozen=True, kw_only=True):
    """A client that came.

    Args:
        program: its User-Agent.
    """

    number: int
    at_ms: int
    program: str
    caller: str
    endpoint: str


class Arrivals:
    """The latest clients.

    Attributes:
        watchers: how many look; while none does, nothing is noted.
    """

    def __init__(self) -> None:
        self.watchers = 0
        self._seen_s: OrderedDict[tuple[str, str, str], float] = OrderedDict()
        self._latest: list[Arrival] = []
        self._number = 0

    @property
    def latest(self) -> list[Arrival]:
        """The last ones, oldest first."""
        return self._latest

    def note(self, endpoint: str, received: Received) -> None:
        """Note the client of a request, unless it came a moment ago."""
        agent = next((value for name, value in received.head.raw if name == b"user-agent"), b"")
        program = visible(agent[:_MAX_CHARS].decode("latin-1")).replace("\n", " ")
        key, now_s = (program, received.actor.subject, endpoint), time.monotonic()
        last_s = self._seen_s.pop(key, float("-inf"))
        self._seen_s[key] = now_s
        while len(self._seen_s) > 10 * _MOST:
            self._seen_s.popitem(last=False)
        if now_s - last_s < _AGAIN_S:
            return
        self._number += 1
        arrival = Arrival(
            number=self._number, at_ms=time.time_ns() // 10**6, program=program,
            caller=received.actor.subject[:_MAX_CHARS], endpoint=endpoint,
        )  # fmt: skip
        self._latest = [*self._latest, arrival][-_MOST:]
