"""The catalogue of each service, as it was read last.

    catalogs = Catalogs(bus)
    await catalogs.read({"dictionary": "5f…"})
    catalogs.all

Services are read at the same time. One that does not answer, or whose catalogue is very large, does
not hold the others: after `patience_s` it is read on in the background.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from functools import partial

from searchbus_contracts import Catalog, Fault, Refusal

from . import telemetry
from .bus import Bus
from .catalog_reader import CatalogReader
from .definitions import changes
from .tasks import end_task

__all__ = ["Catalogs"]

log = logging.getLogger("searchbus.bus")


class Catalogs:
    """Reads catalogues and keeps them.

    Args:
        on_read: called when a catalogue was read, also in the background.
        on_refusal: called with (service, refusal) for every malformed descriptor.
    """

    def __init__(
        self,
        bus: Bus,
        *,
        on_read: Callable[[], None] = lambda: None,
        on_refusal: Callable[[str, Refusal], None] | None = None,
    ) -> None:
        self._reader = CatalogReader(bus)
        self._on_read = on_read
        self._on_refusal = on_refusal
        self._known: dict[str, Catalog] = {}
        self._digests: dict[str, str] = {}
        self._reading: dict[str, asyncio.Task[None]] = {}
        self.toolsets: dict[str, tuple[str, ...]] = {}
        """Service → the toolsets of its catalogue."""

    @property
    def all(self) -> tuple[Catalog, ...]:
        """Every catalogue, sorted by service; a catalogue that is unchanged is the same object."""
        return tuple(self._known[name] for name in sorted(self._known))

    async def read(self, digests: Mapping[str, str], *, patience_s: float | None = None) -> None:
        """Read the catalogues that have other hashes now. What cannot be read is logged.

        Args:
            digests: service → hash.
            patience_s: how long to wait; None: until all are read.
        """
        for service, digest in digests.items():
            if service not in self._reading and digest not in ("", self._digests.get(service)):
                task = asyncio.get_running_loop().create_task(self._read(service, digest))
                self._reading[service] = task
                task.add_done_callback(partial(self._ended, service))
        if self._reading:
            await asyncio.wait(list(self._reading.values()), timeout=patience_s)

    def forget(self, service: str) -> None:
        """Drop the catalogue of a service."""
        self._known.pop(service, None)
        self._digests.pop(service, None)
        self.toolsets.pop(service, None)
        self._reader.forget(service)
        if service in self._reading:
            self._reading.pop(service).cancel()

    async def close(self) -> None:
        """Stop reading."""
        for task in list(self._reading.values()):
            await end_task(task)

    def _ended(self, service: str, task: asyncio.Task[None]) -> None:
        if self._reading.get(service) is task:
            del self._reading[service]
        if not task.cancelled() and task.exception() is not None:
            log.error("the catalogue of %s could not be read", service, exc_info=task.exception())

    async def _read(self, service: str, digest: str) -> None:
        try:
            catalog, refusals = await self._reader.read(service, digest)
        except (Fault, ValueError) as error:
            telemetry.count_refused("catalog")
            log.warning("the catalogue of %s could not be read: %s", service, error)
            return
        # In a thread, for catalogues of thousands.
        toolsets = await asyncio.to_thread(_look_over, self._known.get(service), catalog)
        for refusal in refusals:
            telemetry.count_refused("descriptor")
            log.warning(
                "%s: the %s %s is left out: %s", service, refusal.kind, refusal.name, refusal.reason
            )
            if self._on_refusal is not None:
                self._on_refusal(service, refusal)
        self._known[service], self._digests[service] = catalog, digest
        self.toolsets[service] = toolsets
        self._on_read()


def _look_over(old: Catalog | None, new: Catalog) -> tuple[str, ...]:
    """The toolsets of a catalogue that was read.

    Logs what a model or a caller should not meet unnoticed of tools that are known.
    """
    known = {(tool.toolset, tool.name): tool for tool in old.tools} if old is not None else {}
    for tool in new.tools if known else ():
        before = known.get((tool.toolset, tool.name))
        if before is not None and before is not tool and (found := changes(before, tool)):
            log.warning(
                "%s: the tool %s of toolset %s changed: %s",
                new.service, tool.name, tool.toolset, "; ".join(found),
            )  # fmt: skip
    return new.toolsets
