"""Who serves what, kept up to date: `$SRV.INFO`, catalogue events, catalogues by hash.

    directory = Directory(bus, on_change=rebuild)
    await directory.start()
    directory.catalogs

A service without workers keeps its catalogue for `grace_s`, so that its tools stay listed during a
restart; `present` says whether a worker is running.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import msgspec

from searchbus_contracts import (
    Catalog,
    CatalogEvent,
    CatalogRequest,
    Fault,
    Refusal,
    decode,
    decode_catalog,
)

from . import telemetry
from .bus import Bus, WorkerInfo
from .definitions import changes
from .owners import Owners
from .tasks import end_task
from .transport import Subscription

__all__ = ["Directory"]

log = logging.getLogger("searchbus.bus")

_MISSES_TO_VANISH = 2
"""A busy worker may miss one round of discovery."""


@dataclass(slots=True)
class _Service:
    instances: dict[str, WorkerInfo] = field(default_factory=dict)
    misses: dict[str, int] = field(default_factory=dict)
    catalog: Catalog | None = None
    digest: str = ""
    toolsets: tuple[str, ...] = ()
    last_seen_s: float = 0.0

    @property
    def wanted(self) -> str:
        """The hash of the newest worker's catalogue, which counts during a rolling update."""
        if not self.instances:
            return self.digest
        newest = max(self.instances.values(), key=lambda w: (w.started_ms, w.instance))
        return newest.catalog


class Directory:
    """A live view of the services on a bus.

    Args:
        grace_s: how long the catalogue of a service without workers stays, in seconds.
        refresh_s: interval of discovery, in seconds; events report most changes at once.
        on_change: called after `catalogs` changed.
        on_refusal: called with (service, refusal) for every malformed descriptor.
        declared: toolset → the service that it belongs to; see `owners`.
    """

    def __init__(
        self,
        bus: Bus,
        *,
        grace_s: float = 30.0,
        refresh_s: float = 5.0,
        on_change: Callable[[], None] | None = None,
        on_refusal: Callable[[str, Refusal], None] | None = None,
        declared: Mapping[str, str] | None = None,
    ) -> None:
        self._bus = bus
        self._grace_s = grace_s
        self._refresh_s = refresh_s
        self._on_change = on_change
        self._on_refusal = on_refusal
        self._services: dict[str, _Service] = {}
        self._ownership = Owners(declared or {}, grace_s=grace_s)
        self._owners: dict[str, str] = {}
        self._wake = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._events: Subscription | None = None
        self.generation = 0
        self.catalogs: tuple[Catalog, ...] = ()

    async def start(self) -> None:
        """Discover all services once and follow changes from then on."""
        self._events = await self._bus.subscribe(
            self._bus.subjects.catalog_events(), self._on_event
        )
        await self.refresh()
        self._task = asyncio.get_running_loop().create_task(self._follow())

    async def close(self) -> None:
        """Stop following."""
        await end_task(self._task)
        if self._events is not None:
            await self._events.unsubscribe()

    def present(self, service: str) -> bool:
        """Whether at least one worker of the service is running."""
        known = self._services.get(service)
        return known is not None and bool(known.instances)

    def listed(self, service: str) -> bool:
        """Whether a worker of the service is running, or was within the grace period."""
        return service in self._services

    def owner(self, toolset: str) -> str | None:
        """The service that a toolset belongs to; None for an unknown toolset."""
        return self._owners.get(toolset)

    async def refresh(self) -> None:
        """Run discovery now; a catalogue that cannot be fetched is fetched in the next round."""
        try:
            workers = await self._bus.workers()
        except Fault:
            return
        seen = {worker.instance for worker in workers}
        for worker in workers:
            service = self._services.setdefault(worker.service, _Service())
            service.instances[worker.instance] = worker
            service.misses.pop(worker.instance, None)
        for service in self._services.values():
            for instance in [i for i in service.instances if i not in seen]:
                service.misses[instance] = service.misses.get(instance, 0) + 1
                if service.misses[instance] >= _MISSES_TO_VANISH:
                    del service.instances[instance], service.misses[instance]
        await self._update()

    async def _follow(self) -> None:
        while True:
            try:
                async with asyncio.timeout(self._next_refresh_s()):
                    await self._wake.wait()
            except TimeoutError:
                pass
            self._wake.clear()
            try:
                await self.refresh()
            except Exception:
                log.exception("the directory could not be refreshed")

    def _next_refresh_s(self) -> float:
        missing = any(service.misses for service in self._services.values())
        return min(1.0, self._refresh_s) if missing else self._refresh_s

    async def _on_event(self, subject: str, data: bytes) -> None:
        try:
            event = decode(data, CatalogEvent)
        except Fault:
            return  # discovery finds what a malformed event does not say
        if subject != self._bus.subjects.catalog_event(event.service):
            telemetry.count_refused("service")
            log.warning("an event on %s speaks of another service and is ignored", subject)
            return
        known = self._services.get(event.service)
        if event.event == "down" and known is not None:
            known.instances.pop(event.instance, None)
            known.misses.pop(event.instance, None)
        self._wake.set()

    async def _update(self) -> None:
        now_s = time.monotonic()
        changed = False
        for name, service in list(self._services.items()):
            if service.instances:
                service.last_seen_s = now_s
            elif now_s - service.last_seen_s > self._grace_s:
                log.warning("no worker of %s came back; its tools are no longer listed", name)
                del self._services[name]
                changed = True
                continue
            if service.wanted != service.digest and await self._fetch(name, service):
                changed = True
        owners = self._ownership.update({n: s.toolsets for n, s in self._services.items()})
        if changed or owners != self._owners:
            self._owners = owners
            self._publish()

    async def _fetch(self, name: str, service: _Service) -> bool:
        digest = service.wanted
        try:
            raw = await self._bus.request(
                self._bus.subjects.catalog(name, digest),
                CatalogRequest(),
                msgspec.Raw,
                service=name,
                timeout_s=5.0,
            )
            catalog, refusals = decode_catalog(bytes(raw))
        except (Fault, ValueError) as error:
            log.warning("the catalogue of %s could not be read: %s", name, error)
            return False
        if catalog.service != name:
            telemetry.count_refused("service")
            log.warning("the catalogue of %s says that it is of %s", name, catalog.service)
            return False
        if service.catalog is not None:
            _log_changes(service.catalog, catalog)
        for refusal in refusals:
            telemetry.count_refused("descriptor")
            log.warning(
                "%s: the %s %s is left out: %s", name, refusal.kind, refusal.name, refusal.reason
            )
            if self._on_refusal is not None:
                self._on_refusal(name, refusal)
        service.catalog, service.digest, service.toolsets = catalog, digest, catalog.toolsets
        return True

    def _publish(self) -> None:
        self.catalogs = tuple(
            service.catalog
            for _, service in sorted(self._services.items())
            if service.catalog is not None
        )
        self.generation += 1
        if self._on_change is not None:
            self._on_change()


def _log_changes(old: Catalog, new: Catalog) -> None:
    """Log what a model or a caller should not meet unnoticed of tools that are known."""
    known = {(tool.toolset, tool.name): tool for tool in old.tools}
    for tool in new.tools:
        before = known.get((tool.toolset, tool.name))
        if before is not None and before is not tool and (found := changes(before, tool)):
            log.warning(
                "%s: the tool %s of toolset %s changed: %s",
                new.service, tool.name, tool.toolset, "; ".join(found),
            )  # fmt: skip
