"""What the parts of this process say of themselves to whoever pings it (proto/README.md §5.8).

    _egresses = LiveParts(lambda egress: LivePart(kind="egress", name=egress.name, ...))
    _egresses.watch(egress)             # until it is garbage collected

    lookups = Tally("cache")
    lookups.add("pages", "hit")         # for what is counted and belongs to no object

Nothing is read until somebody asks. Names are those of metrics: no key, no query.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import chain, islice
from typing import Generic, TypeVar
from weakref import WeakSet

from searchbus_contracts import LivePart

T = TypeVar("T")
MAX_PARTS = 200
"""A process has no more, so that a reply stays far below the limit of one message."""
_MAX_NAMES = 100
_sources: list[Callable[[], Iterable[LivePart]]] = []


class LiveParts(Generic[T]):
    """Objects that each are one part, or several, which `read` returns of one object."""

    def __init__(self, read: Callable[[T], LivePart | Iterable[LivePart]]) -> None:
        self._read = read
        self._live: WeakSet[T] = WeakSet()
        _sources.append(self._parts)

    def watch(self, thing: T) -> None:
        """Read this object from now on."""
        self._live.add(thing)

    def _parts(self) -> Iterable[LivePart]:
        for thing in list(self._live):
            found = self._read(thing)
            yield from (found,) if isinstance(found, LivePart) else found


class Tally:
    """Counts outcomes by name; each name is a part of a kind."""

    def __init__(self, kind: str) -> None:
        self._kind = kind
        self._numbers: dict[str, dict[str, float]] = {}
        _sources.append(self._parts)

    def add(self, name: str, outcome: str, amount: float = 1.0) -> None:
        """Count one more; names beyond a limit are not counted."""
        numbers = self._numbers.get(name)
        if numbers is None:
            if len(self._numbers) >= _MAX_NAMES:
                return
            numbers = self._numbers[name] = {}
        numbers[outcome] = numbers.get(outcome, 0.0) + amount

    def _parts(self) -> Iterable[LivePart]:
        return [
            LivePart(kind=self._kind, name=name, numbers=dict(numbers))
            for name, numbers in self._numbers.items()
        ]


def live_parts() -> tuple[LivePart, ...]:
    """All parts of this process, at most `MAX_PARTS`."""
    return tuple(islice(chain.from_iterable(read() for read in list(_sources)), MAX_PARTS))
