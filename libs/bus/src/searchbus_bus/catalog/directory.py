"""Who serves what, kept up to date: events, rounds of discovery, catalogues by hash.

An instance's event changes what is known of that instance, without a question to anyone. Rounds of
discovery find what no event said: they are spread over time, and rarer the more workers there are,
and while nothing changes. An instance that a round misses is pinged before it counts as lost.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping

from searchbus_contracts import ACKS_KEY, Catalog, CatalogEvent, Fault, decode

from .. import telemetry
from ..bus import Bus
from ..client.discovery import started_ms
from ..tasks import end_task, wait_for_event
from ..telemetry import LiveGauge
from ..transport import Subscription
from .catalogs import Catalogs
from .services import Absence, Instance, Listing, Owners, Presence, claims

log = logging.getLogger("searchbus.bus")

_MERGE_S = (0.02, 0.1)
"""How long events are gathered before catalogues are fetched; random, so that the followers of one
event do not ask at the same moment."""
_JITTER = (0.8, 1.2)
"""Factor of the time between rounds: followers that started together do not stay together."""
_REPLIES_PER_S = 200
"""Replies of discovery at each follower: with more workers the rounds are rarer."""
_QUIET_FACTOR = 4.0
"""Rounds become up to this much rarer while nothing changes: most of what an idle stack does."""
_MOST_INSTANCES = 10_000
"""Instances of a service: a worker that announces them without end fills no memory."""
_PATIENCE_S = 1.0
"""For catalogues that are read: a slow one does not hold what is known of the others."""

_START_PATIENCE_S = 2.0
"""For services that run and are late with their reply, in the first round: they would be missing
from the lists until the next one."""

_PINGS = 2
_PING_TIMEOUT_S = 1.0
"""Limit of a ping, and the time between two."""
_AT_ONCE = 100


async def silent_instances(bus: Bus, instances: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    """Those of the instances (service, id) that answer none of two pings, a second apart."""
    limit = asyncio.Semaphore(_AT_ONCE)

    async def answers(service: str, identity: str) -> bool:
        async with limit:
            return await bus.ping(service, identity, _PING_TIMEOUT_S)

    silent = list(instances)
    for attempt in range(_PINGS):
        if silent and attempt:
            await asyncio.sleep(_PING_TIMEOUT_S)
        answered = await asyncio.gather(*(answers(*key) for key in silent))
        silent = [key for key, alive in zip(silent, answered, strict=True) if not alive]
    return silent


class Directory:
    """A live view of the services on a bus.

    Args:
        expected: services that stay known however long they are away, and that each round asks
            by their names: a busy one may be late for the question to everyone.
        grace_s: how long a service stays listed whose last worker announced that it stops.
        lost_grace_s: how long a service stays listed whose last worker vanished without a word.
        refresh_s: time between rounds of discovery, in seconds, while instances come and go; up to
            four times as long otherwise. Events report most changes at once.
        on_change: called after `catalogs` changed.
        prepare: awaited with what is published next, before it is.
        declared: toolset → the service that it belongs to; see `owners`.
    """

    def __init__(
        self,
        bus: Bus,
        *,
        expected: Collection[str] = (),
        grace_s: float = 30.0,
        lost_grace_s: float = 86_400.0,
        refresh_s: float = 5.0,
        on_change: Callable[[], None] | None = None,
        prepare: Callable[[Listing], Awaitable[None]] | None = None,
        declared: Mapping[str, str] | None = None,
    ) -> None:
        self._bus = bus
        self._wake = asyncio.Event()
        self._refresh_s = refresh_s
        self._on_change = on_change
        self._prepare = prepare
        self._presence = Presence(expected=expected, grace_s=grace_s, lost_grace_s=lost_grace_s)
        self._read = Catalogs(bus, on_read=self._wake.set)
        self._ownership = Owners(declared or {}, grace_s=grace_s)
        self._refreshing = asyncio.Lock()
        self._updating = asyncio.Lock()
        self._following: asyncio.Task[None] | None = None
        self._probing: asyncio.Task[None] | None = None
        self._events: Subscription | None = None
        self._quiet = 1.0
        self.rounds = 0
        self.listing = Listing()

    async def start(self) -> None:
        """Discover all services and follow changes; failures then say since when one is away."""
        self._bus.explain_absences(self._explain)
        _away.watch(self)
        self._events = await self._bus.subscribe(
            self._bus.subjects.catalog_events(), self._on_event
        )
        await self.refresh()
        self._following = asyncio.get_running_loop().create_task(self._follow())

    async def close(self) -> None:
        """Stop following."""
        await end_task(self._following)
        await end_task(self._probing)
        await self._read.close()
        if self._events is not None:
            await self._events.unsubscribe()

    @property
    def generation(self) -> int:
        """Increases whenever catalogues or owners change."""
        return self.listing.generation

    @property
    def catalogs(self) -> tuple[Catalog, ...]:
        """The catalogue of each service that is listed."""
        return self.listing.catalogs

    @property
    def discovered(self) -> bool:
        """Whether a round of discovery has ended, and the catalogues found in it were read."""
        return self.rounds > 0

    @property
    def instances(self) -> dict[tuple[str, str], Instance]:
        """(service, id) → instance, of all that are there."""
        return self._presence.everyone()

    def present(self, service: str) -> bool:
        """Whether at least one worker of the service is running."""
        return bool(self._presence.instances(service))

    def count(self, service: str) -> int:
        """How many workers of the service are running."""
        return len(self._presence.instances(service))

    def listed(self, service: str) -> bool:
        """Whether a worker of the service is running, or was within the grace period."""
        return service in self._presence

    def absence(self, service: str) -> Absence | None:
        """Since when a service is away; None for one that is there, and for one not known."""
        return self._presence.absence(service)

    def _explain(self, service: str) -> Absence | None:
        """The absence of a service that a request did not reach; if it is news, a round is soon."""
        if self._quiet > 1.0:
            self._wake.set()
        return self.absence(service)

    @property
    def absences(self) -> list[Absence]:
        """The services that are away: the expected ones, and those within their grace period."""
        return self._presence.absences()

    def owner(self, toolset: str) -> str | None:
        """The service that a toolset belongs to; None for an unknown toolset."""
        return self.listing.owners.get(toolset)

    async def refresh(self) -> None:
        """Run a round of discovery now; the next one reads catalogues that could not be read."""
        async with self._refreshing:
            before = self._presence.everyone()
            names = sorted({*self._presence, *self._presence.expected})
            known = {name: max(1, self.count(name)) for name in names}
            patience_s = 0.0 if self.discovered else _START_PATIENCE_S
            try:
                workers = await self._bus.workers(known=known, patience_s=patience_s)
            except Fault:
                return
            seen = set()
            for worker in workers:
                key = (worker.service, worker.instance)
                seen.add(key)
                # An event that came during the round is newer than the reply.
                if self._instance(*key) is before.get(key):
                    found = Instance(worker.catalog, worker.started_ms, worker.metadata)
                    self._presence.put(*key, found)
            missing = {key: record for key, record in before.items() if key not in seen}
            if missing and (self._probing is None or self._probing.done()):
                self._probing = asyncio.get_running_loop().create_task(self._probe(missing))
            await self._update()
            self.rounds += 1

    async def _follow(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            due_s = loop.time() + self._pause_s()
            try:
                while await wait_for_event(self._wake, max(0.0, due_s - loop.time())):
                    await asyncio.sleep(random.uniform(*_MERGE_S))  # noqa: S311  (jitter)
                    self._wake.clear()
                    await self._update()
                    # What comes in place of a worker that was lost says so; the round finds it.
                    self._quiet = 1.0
                    due_s = min(due_s, loop.time() + self._pause_s())
                known = self.instances.keys()
                await self.refresh()
                same = self.instances.keys() == known
                self._quiet = min(_QUIET_FACTOR, 2 * self._quiet) if same else 1.0
            except Exception:
                log.exception("the directory could not be refreshed")

    def _pause_s(self) -> float:
        """Until the next round."""
        # Each replies twice: as one of all, and as one of its service.
        replies_s = 2 * len(self._presence.everyone()) / _REPLIES_PER_S
        pause_s = max(self._quiet * self._refresh_s, replies_s)
        return pause_s * random.uniform(*_JITTER)  # noqa: S311  (jitter)

    async def _on_event(self, subject: str, data: bytes) -> None:
        try:
            event = decode(data, CatalogEvent)
        except Fault as fault:  # discovery finds what it does not say
            telemetry.count_refused("event")
            log.warning("an event on %s is malformed and ignored: %s", subject, fault)
            return
        if subject != self._bus.subjects.catalog_event(event.service):
            telemetry.count_refused("service")
            log.warning("an event on %s speaks of another service and is ignored", subject)
            return
        if event.event == "down":
            self._presence.remove(event.service, event.instance, announced=True)
        else:
            known = self._instance(event.service, event.instance)
            if known is None:
                if self.count(event.service) >= _MOST_INSTANCES:
                    telemetry.count_refused("instance")
                    return  # discovery finds those that there are
                known = Instance("", time.time_ns() // 10**6)
            # An event without metadata says nothing new of it.
            metadata = event.metadata or known.metadata
            instance = Instance(event.catalog, started_ms(metadata) or known.started_ms, metadata)
            self._presence.put(event.service, event.instance, instance)
        self._wake.set()

    def _instance(self, service: str, identity: str) -> Instance | None:
        return self._presence.instances(service).get(identity)

    async def _probe(self, missing: dict[tuple[str, str], Instance]) -> None:
        """Remove instances that answer no ping, unless something is heard of them meanwhile."""
        silent = await silent_instances(self._bus, missing)
        if not self._bus.connected:
            return  # nobody could answer
        for key in silent:
            if self._instance(*key) is missing[key]:
                log.warning("an instance of %s was lost: %s", *key)
                self._presence.remove(*key, announced=False)
                self._wake.set()

    async def _update(self) -> None:
        """Read the catalogues that have changed, and publish the view if it is another one."""
        async with self._updating:
            for name in self._presence.forget():
                log.warning("no worker of %s came back; its tools are no longer listed", name)
                self._read.forget(name)
                self._bus.fleet.forget(name)
            wanted = {
                name: newest.catalog
                for name in self._presence
                if (newest := self._presence.newest(name)) is not None
            }
            for name in self._presence:
                instances = self._presence.instances(name)
                every = all(ACKS_KEY in found.metadata for found in instances.values())
                self._bus.fleet.follow(name, instances if every else None)
            # Whoever starts waits for all: an edge is ready once it can list what there is.
            await self._read.read(wanted, patience_s=_PATIENCE_S if self.discovered else None)
            await self._publish()

    async def _publish(self) -> None:
        offers = self._read.toolsets
        there = {s for s in offers if self.present(s) or self._presence.is_restarting(s)}
        owners = self._ownership.update(claims(offers, there))
        listing = self.listing.following(self._read.all, owners)
        if listing is None:
            return
        if self._prepare is not None:
            await self._prepare(listing)
        self.listing = listing
        if self._on_change is not None:
            self._on_change()


_away: LiveGauge[Directory] = LiveGauge(
    telemetry.meter,
    "searchbus.service.away",
    lambda directory: [(1, {"worker": absence.service}) for absence in directory.absences],
    description="Services that this process knows of and that have no worker.",
)
