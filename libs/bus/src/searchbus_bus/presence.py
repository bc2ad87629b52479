"""Which instances of which services are there, and since when a service is away.

    presence = Presence(expected=("retrieval",))
    presence.put("retrieval", "a", Instance("5f…", 1))
    presence.remove("retrieval", "a", announced=False)
    presence.absence("retrieval")                        # since when, and whether it was announced

It knows no bus: the directory tells it of events and of the replies to discovery.

How long a service stays known after its last instance has gone:

| | |
| --- | --- |
| it is expected (the setting REQUIRED_SERVICES) | as long as this process runs |
| it vanished without a word (a crash, a lost machine) | `lost_grace_s` |
| its last instance announced that it stops | `grace_s`: the operator took it out, or restarts it |
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field

__all__ = ["Absence", "Instance", "Presence", "started_ms"]


def started_ms(metadata: Mapping[str, str]) -> int:
    """When a worker started, in milliseconds of the epoch; 0 where its metadata does not say."""
    value = metadata.get("started_ms", "")
    # Any worker writes it: int() refuses other digits than ASCII's, and very many of them.
    return int(value) if re.fullmatch(r"[0-9]{1,16}", value) else 0


@dataclass(frozen=True, slots=True)
class Instance:
    """What is known of an instance; each event and each reply makes a new one.

    Args:
        catalog: the hash of its catalogue.
        started_ms: when it started, in milliseconds of the epoch.
        metadata: all that it says of itself.
    """

    catalog: str
    started_ms: int
    metadata: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Absence:
    """A service without instances.

    Args:
        since_s: seconds of the epoch; `None`: it was not seen since this process started.
        announced: whether its last instance announced that it stops.
    """

    service: str
    since_s: float | None
    announced: bool = False

    def __str__(self) -> str:
        if self.since_s is None:
            return f"No worker of the {self.service} service has been seen yet."
        since = time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(self.since_s))
        return f"The {self.service} service has been away since {since} UTC."


@dataclass(slots=True)
class _Service:
    instances: dict[str, Instance] = field(default_factory=dict)
    gone_s: float = 0.0
    announced: bool = False


class Presence:
    """The instances of all services.

    Args:
        expected: services that stay known however long they are away.
        grace_s, lost_grace_s: see the module, in seconds.
        clock_s: a clock that never goes back.
    """

    def __init__(
        self,
        *,
        expected: Collection[str] = (),
        grace_s: float = 30.0,
        lost_grace_s: float = 86_400.0,
        clock_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self.expected = frozenset(expected)
        self.grace_s = grace_s
        self.lost_grace_s = lost_grace_s
        self._clock_s = clock_s
        self._services: dict[str, _Service] = {}

    def __contains__(self, service: str) -> bool:
        return service in self._services

    def __iter__(self) -> Iterator[str]:
        return iter(sorted(self._services))

    def instances(self, service: str) -> dict[str, Instance]:
        """Id → instance of a service; not to be changed."""
        known = self._services.get(service)
        return {} if known is None else known.instances

    def everyone(self) -> dict[tuple[str, str], Instance]:
        """(service, id) → instance, of all services."""
        return {
            (service, identity): instance
            for service, known in self._services.items()
            for identity, instance in known.instances.items()
        }

    def newest(self, service: str) -> Instance | None:
        """The instance that started last; its catalogue counts during a rolling update."""
        found = self.instances(service).items()
        return max(found, key=lambda item: (item[1].started_ms, item[0]))[1] if found else None

    def put(self, service: str, identity: str, instance: Instance) -> None:
        """Add an instance, or replace what is known of it."""
        self._services.setdefault(service, _Service()).instances[identity] = instance

    def remove(self, service: str, identity: str, *, announced: bool) -> None:
        """Remove an instance.

        Args:
            announced: whether it announced that it stops; else it was lost.
        """
        known = self._services.get(service)
        if known is None or known.instances.pop(identity, None) is None:
            return
        if not known.instances:
            known.gone_s, known.announced = self._clock_s(), announced

    def absence(self, service: str) -> Absence | None:
        """Since when a service is away; None while it has instances, and if it is not known."""
        known = self._services.get(service)
        if known is None:
            return Absence(service, None) if service in self.expected else None
        if known.instances:
            return None
        return Absence(service, time.time() - self._away_s(known), known.announced)

    def absences(self) -> list[Absence]:
        """Every service that is away."""
        names = sorted(self.expected | self._services.keys())
        return [absence for name in names if (absence := self.absence(name)) is not None]

    def is_restarting(self, service: str) -> bool:
        """Whether a service is away for less than `grace_s`."""
        known = self._services.get(service)
        return known is not None and not known.instances and self._away_s(known) <= self.grace_s

    def forget(self) -> list[str]:
        """Remove the services that were away for too long, and return their names."""
        over = [
            name
            for name, known in self._services.items()
            if not known.instances
            and name not in self.expected
            and self._away_s(known) > (self.grace_s if known.announced else self.lost_grace_s)
        ]
        for name in over:
            del self._services[name]
        return over

    def _away_s(self, known: _Service) -> float:
        return self._clock_s() - known.gone_s
