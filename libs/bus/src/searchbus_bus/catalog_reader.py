"""Reads catalogues by their hash: of a large one only the parts that are not known yet.

    reader = CatalogReader(bus)
    catalog, refusals = await reader.read("attach", "5f…")

Descriptors of known parts stay the same objects, so that a reader can tell what has changed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from itertools import chain

import msgspec

from searchbus_contracts import (
    Catalog,
    CatalogPart,
    CatalogRequest,
    ErrorCode,
    Fault,
    Refusal,
    decode_catalog,
)

from . import telemetry
from .bus import Bus

__all__ = ["CatalogReader"]

_TIMEOUT_S = 5.0
_PARTS_AT_ONCE = 500
"""That are asked for; the worker sends as many as fit into one reply."""


class CatalogReader:
    """Reads catalogues of services, and keeps their parts."""

    def __init__(self, bus: Bus) -> None:
        self._bus = bus
        self._parts: dict[str, dict[str, CatalogPart]] = {}

    async def read(self, service: str, digest: str) -> tuple[Catalog, list[Refusal]]:
        """The catalogue behind a hash, and the descriptors that were left out of what was read now.

        Raises:
            Fault: no worker sent it, it is the catalogue of another service, or a part does not fit
                its hash.
            ValueError: the hash cannot be part of a subject.
        """
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
    return Catalog(
        service=service,
        tools=tuple(chain.from_iterable(part.tools for part in parts)),
        prompts=tuple(chain.from_iterable(part.prompts for part in parts)),
        resources=tuple(chain.from_iterable(part.resources for part in parts)),
        resource_templates=tuple(chain.from_iterable(p.resource_templates for p in parts)),
    )
