"""Which instances of which services are there, since when one is away, and whose a toolset is."""

from __future__ import annotations

import logging
import operator
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field

from searchbus_contracts import Catalog

from .. import telemetry

log = logging.getLogger("searchbus.bus")


@dataclass(frozen=True, slots=True)
class Listing:
    """A directory publishes a new one whenever something changes.

    Args:
        generation: increases from one to the next.
        catalogs: sorted by service; one that is unchanged is the same object as before.
        owners: toolset → the service that it belongs to, of all toolsets that are offered.
    """

    generation: int = 0
    catalogs: tuple[Catalog, ...] = ()
    owners: Mapping[str, str] = field(default_factory=dict)

    def following(self, catalogs: tuple[Catalog, ...], owners: Mapping[str, str]) -> Listing | None:
        """The next listing; None where nothing has changed."""
        same = len(catalogs) == len(self.catalogs) and all(
            map(operator.is_, catalogs, self.catalogs)
        )
        if same and owners == self.owners:
            return None
        return Listing(self.generation + 1, catalogs, owners)


@dataclass(frozen=True, slots=True)
class Instance:
    """What is known of an instance; each event and each reply makes a new one. `catalog` is a hash,
    `metadata` what it says of itself."""

    catalog: str
    started_ms: int
    metadata: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Absence:
    """A service without instances since `since_s` (of the epoch; None: never seen); `announced` its
    stop."""

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
    """The instances of all services; `expected` ones stay known however long they are away."""

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
        """Remove an instance that announced its stop, or was lost."""
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


@dataclass(slots=True)
class _Holding:
    """An undeclared toolset's owner, and since when it does not offer the toolset any more."""

    service: str
    lost_s: float | None = None


class Owners:
    """Assigns each toolset to the service that declares it, else to the first that offers it.

    A service can only put tools into lists under a toolset that is its own: the tools of another
    would take the place of the owner's, with other descriptions and without their roles.

    Args:
        declared: toolset → service; these toolsets belong to nobody else, also while the service
            is not running.
        grace_s: how long any other toolset stays with a running service that stopped offering it.
        clock: seconds.
    """

    def __init__(
        self,
        declared: Mapping[str, str],
        *,
        grace_s: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._declared = declared
        self._grace_s = grace_s
        self._clock = clock
        self._held: dict[str, _Holding] = {}
        self._refused: set[tuple[str, str]] = set()

    def update(self, offered: Mapping[str, Collection[str]]) -> dict[str, str]:
        """Assign the toolsets that listed services offer now; each offered toolset → owner."""
        self._release(offered)
        owners: dict[str, str] = {}
        refused: set[tuple[str, str]] = set()
        for service, toolsets in sorted(offered.items()):
            for toolset in toolsets:
                if self._owner(toolset, service) == service:
                    owners[toolset] = service
                else:
                    refused.add((service, toolset))
        for service, toolset in sorted(refused - self._refused):
            telemetry.count_refused("toolset")
            log.warning(
                "%s also offers the toolset %s, which belongs to %s; that offer is ignored",
                service,
                toolset,
                self._owner(toolset, service),
            )
        self._refused = refused
        return owners

    def _owner(self, toolset: str, service: str) -> str:
        """The owner; the service itself becomes it where there is none."""
        declared = self._declared.get(toolset)
        if declared is not None:
            return declared
        return self._held.setdefault(toolset, _Holding(service)).service

    def _release(self, offered: Mapping[str, Collection[str]]) -> None:
        now_s = self._clock()
        for toolset, holding in list(self._held.items()):
            if toolset in offered.get(holding.service, ()):
                holding.lost_s = None
            elif holding.lost_s is None:
                holding.lost_s = now_s
            # A service that is no longer listed was given its time already.
            gone = holding.service not in offered
            if gone or (holding.lost_s is not None and now_s - holding.lost_s > self._grace_s):
                del self._held[toolset]


def claims(
    offers: Mapping[str, Collection[str]], there: Collection[str]
) -> dict[str, tuple[str, ...]]:
    """Service → the toolsets that it claims, of those in its catalogue: a service that is away
    gives way to one that is `there`, or was until a moment ago."""
    claimed = {toolset for service in there for toolset in offers[service]}
    return {
        service: tuple(t for t in toolsets if service in there or t not in claimed)
        for service, toolsets in offers.items()
    }
