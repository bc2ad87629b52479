"""Clients as they come to the edges, for the console; nothing is noted while nobody watches.

An edge says its latest ones with its other live parts (`searchbus_bus.live`), so that each console
sees the clients of every edge.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterable, Iterator

from cachetools import LRUCache
from msgspec import Struct

from searchbus_bus.live import LiveParts
from searchbus_contracts import LivePart
from searchbus_contracts.visible import visible

from ..http.head import Received

MOST = 20
KIND = "client"
_AGAIN_S = 60.0
"""A client that was silent for this time arrives again."""
_WATCHED_S = 60.0
"""For this time after somebody asked for them, arrivals are noted."""
_MAX_CHARS = 120


class Arrival(Struct, frozen=True, kw_only=True):
    """A client that came.

    Args:
        id: of this arrival, among those of all edges.
        program: its User-Agent.
    """

    id: str
    at_ms: int
    program: str
    caller: str
    endpoint: str


class Arrivals:
    """The latest clients of this edge."""

    def __init__(self) -> None:
        self._watched_until_s = 0.0
        self._seen_s: LRUCache[tuple[str, str, str], float] = LRUCache(10 * MOST)
        self._latest: list[LivePart] = []
        _edges.watch(self)

    @property
    def watched(self) -> bool:
        """Whether somebody asked for them a moment ago."""
        return self._watched_until_s > 0 and time.monotonic() < self._watched_until_s

    def note(self, endpoint: str, received: Received) -> None:
        """Note the client of a request, unless it came a moment ago."""
        agent = next((value for name, value in received.head.raw if name == b"user-agent"), b"")
        program = visible(agent[:_MAX_CHARS].decode("latin-1")).replace("\n", " ")
        key, now_s = (program, received.actor.subject, endpoint), time.monotonic()
        last_s = self._seen_s.get(key, float("-inf"))
        self._seen_s[key] = now_s
        if now_s - last_s < _AGAIN_S:
            return
        caller = visible(received.actor.subject[:_MAX_CHARS])
        arrival = LivePart(
            kind=KIND, name=program, numbers={"at_ms": time.time_ns() // 10**6},
            labels={"id": secrets.token_hex(8), "caller": caller, "endpoint": endpoint},
        )  # fmt: skip
        self._latest = [*self._latest, arrival][-MOST:]

    def parts(self) -> list[LivePart]:
        """The last ones, for whoever asks; from now on more are noted."""
        self._watched_until_s = time.monotonic() + _WATCHED_S
        return self._latest


_edges: LiveParts[Arrivals] = LiveParts(Arrivals.parts)


def arrivals_of(parts: Iterable[LivePart]) -> Iterator[Arrival]:
    """The arrivals among the live parts of a process; what else claims to be one is left out."""
    for part in parts:
        if part.kind == KIND and part.labels.get("id"):
            labels = {name: text[:_MAX_CHARS] for name, text in part.labels.items()}
            yield Arrival(
                id=labels["id"], at_ms=int(part.numbers.get("at_ms", 0)), program=part.name,
                caller=labels.get("caller", ""), endpoint=labels.get("endpoint", ""),
            )  # fmt: skip
