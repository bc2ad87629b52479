"""The catalogue of each service, read by its hash: of a large one only the parts that changed."""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import msgspec
from msgspec import Struct

from searchbus_contracts import (
    Catalog,
    CatalogPart,
    CatalogRequest,
    ErrorCode,
    Fault,
    Refusal,
    ToolAnnotations,
    ToolDescriptor,
    decode_catalog,
)
from searchbus_contracts.catalog import KINDS
from searchbus_contracts.codec import canonical

from .. import telemetry
from ..bus import Bus
from ..tasks import end_task

log = logging.getLogger("searchbus.bus")

_TIMEOUT_S = 5.0
_PARTS_AT_ONCE = 500
"""That are asked for; the worker sends as many as fit into one reply."""


class Definition(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a model reads of a tool, and what a call needs: a tool is approved by the hash of this.

    The other fields of a descriptor say how the tool is served or found.
    """

    name: str
    title: str | None = None
    description: str = ""
    input_schema: dict[str, Any] = {}
    output_schema: dict[str, Any] | None = None
    annotations: ToolAnnotations | None = None
    required_roles: tuple[str, ...] = ()


def definition_of(tool: ToolDescriptor) -> Definition:
    """The definition of a tool."""
    return Definition(**{name: getattr(tool, name) for name in Definition.__struct_fields__})


def fingerprint(tool: ToolDescriptor) -> str:
    """SHA-256 over the canonical JSON of a tool's definition, as 64 hex digits."""
    return hashlib.sha256(canonical(definition_of(tool))).hexdigest()


def changes(old: ToolDescriptor, new: ToolDescriptor) -> list[str]:
    """What differs between two definitions, as clauses for a log line; roles by their names."""
    found = [
        f"its {field.replace('_', ' ')} changed"
        for field in Definition.__struct_fields__
        if field != "required_roles" and getattr(old, field) != getattr(new, field)
    ]
    before, after = set(old.required_roles), set(new.required_roles)
    found += [f"it no longer needs the role {role}" for role in sorted(before - after)]
    found += [f"it now needs the role {role}" for role in sorted(after - before)]
    return found


class CatalogReader:
    """Reads catalogues; descriptors of known parts stay the same objects, to tell what changed."""

    def __init__(self, bus: Bus) -> None:
        self._bus = bus
        self._parts: dict[str, dict[str, CatalogPart]] = {}

    async def read(self, service: str, digest: str) -> tuple[Catalog, list[Refusal]]:
        """The catalogue behind a hash, and the descriptors that were left out of what was read now.
        Raises Fault (nobody sent it, another service's, a wrong part), ValueError (bad hash)."""
        catalog, refusals = await self._request(service, digest, ())
        if not catalog.parts:
            self.forget(service)
            return catalog, refusals
        known = self._parts.setdefault(service, {})
        hashes = [part.hash for part in catalog.parts]
        for part in catalog.parts:
            if part != CatalogPart(hash=part.hash):  # small, and sent with its descriptors
                known.setdefault(part.hash, part)
        while missing := [name for name in hashes if name not in known]:
            wanted = missing[:_PARTS_AT_ONCE]
            sent, refused = await self._request(service, digest, wanted)
            found = {part.hash: part for part in sent.parts if part.hash in wanted}
            if not found:
                raise Fault(
                    ErrorCode.INTERNAL, "A part of the catalogue was not sent. Restart the service."
                )
            known |= found
            refusals += refused
        kept = self._parts[service] = {name: known[name] for name in hashes}
        return await asyncio.to_thread(_joined, service, list(kept.values())), refusals

    def forget(self, service: str) -> None:
        """Drop the parts of a service."""
        self._parts.pop(service, None)

    async def _request(
        self, service: str, digest: str, parts: Sequence[str]
    ) -> tuple[Catalog, list[Refusal]]:
        body = await self._bus.request(
            self._bus.subjects.catalog(service, digest),
            CatalogRequest(parts=tuple(parts), packed=True),
            msgspec.Raw,
            service=service,
            timeout_s=_TIMEOUT_S,
        )
        # In a thread: half a megabyte of packed parts holds thousands of descriptors.
        catalog, refusals = await asyncio.to_thread(decode_catalog, bytes(body))
        if catalog.service != service:
            telemetry.count_refused("service")
            raise Fault(
                ErrorCode.INTERNAL,
                f"It says that it is of {catalog.service}. Give each service a name of its own.",
            )
        for refusal in refusals:
            if refusal.kind == "part":  # another worker may have a good one
                raise Fault(ErrorCode.INTERNAL, refusal.reason)
        return catalog, refusals


def _joined(service: str, parts: Sequence[CatalogPart]) -> Catalog:
    items: dict[str, Any] = {
        kind: tuple(item for part in parts for item in getattr(part, kind)) for kind in KINDS
    }
    return Catalog(service=service, **items)


class Catalogs:
    """Reads catalogues and keeps them; `on_read` follows each one read, also in the background."""

    def __init__(self, bus: Bus, *, on_read: Callable[[], None] = lambda: None) -> None:
        self._reader = CatalogReader(bus)
        self._on_read = on_read
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
        """Read the catalogues (service → hash) that have other hashes now, for `patience_s` or
        until all are read. What cannot be read is logged."""
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
        self._known[service], self._digests[service] = catalog, digest
        self.toolsets[service] = toolsets
        self._on_read()


def _look_over(old: Catalog | None, new: Catalog) -> tuple[str, ...]:
    """The toolsets of a catalogue that was read; what changed of known tools is logged."""
    known = {(tool.toolset, tool.name): tool for tool in old.tools} if old is not None else {}
    for tool in new.tools if known else ():
        before = known.get((tool.toolset, tool.name))
        if before is not None and before is not tool and (found := changes(before, tool)):
            log.warning(
                "%s: the tool %s of toolset %s changed: %s",
                new.service, tool.name, tool.toolset, "; ".join(found),
            )  # fmt: skip
    return new.toolsets
