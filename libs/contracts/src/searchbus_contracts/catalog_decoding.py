"""Reads catalogues as they are sent: descriptor by descriptor, and packed parts.

A malformed descriptor is left out with a reason, and the others stay; so is a packed part that does
not fit its hash.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec
from msgspec import Struct

from .catalog import (
    Catalog,
    CatalogPart,
    PromptDescriptor,
    ResourceDescriptor,
    ResourceTemplate,
)
from .catalog_packing import unpack
from .codec import decode
from .errors import Fault
from .tools import Name, ToolDescriptor

__all__ = ["Refusal", "decode_catalog"]

_MAX_UNPACKED_BYTES = 64 * 1024 * 1024
"""Of all packed parts of one reply: as much as a reply without packed parts may have."""


class Refusal(Struct, frozen=True, kw_only=True):
    """A descriptor, or a part of a catalogue, that was left out, and the reason."""

    kind: str
    name: str
    reason: str


class _RawPart(Struct, kw_only=True):
    hash: str = ""
    tools: tuple[msgspec.Raw, ...] = ()
    prompts: tuple[msgspec.Raw, ...] = ()
    resources: tuple[msgspec.Raw, ...] = ()
    resource_templates: tuple[msgspec.Raw, ...] = ()
    packed: bytes = b""


class _RawCatalog(_RawPart, kw_only=True):
    service: Name
    parts: tuple[_RawPart, ...] = ()


RESERVED_TOOLSETS = {"connector": "connector", "lazy": "connector"}
"""Toolsets that belong to one service whatever others offer: those of the edge itself."""


def decode_catalog(data: bytes) -> tuple[Catalog, list[Refusal]]:
    """Decode a catalogue without its malformed descriptors, which are returned as refusals.

    Packed parts are unpacked. One that cannot be, or that has another hash, is refused as a whole.

    Raises:
        Fault: invalid_argument where the catalogue as a whole cannot be decoded.
    """
    raw = decode(data, _RawCatalog)
    refusals: list[Refusal] = []
    parts = tuple(
        CatalogPart(hash=part.hash, **_descriptors(part, raw.service, refusals))
        for part in _unpacked(raw.parts, refusals)
    )
    whole = _descriptors(raw, raw.service, refusals)
    return Catalog(service=raw.service, parts=parts, **whole), refusals


def _unpacked(parts: tuple[_RawPart, ...], refusals: list[Refusal]) -> Iterator[_RawPart]:
    """The parts with their descriptors; those that are refused are added to `refusals`."""
    left_bytes = _MAX_UNPACKED_BYTES
    for part in parts:
        if not part.packed:
            yield part
            continue
        try:
            kind, lines = unpack(part.packed, part.hash, max_bytes=left_bytes)
            left_bytes -= sum(map(len, lines))
            descriptors: dict[str, Any] = {kind: tuple(map(msgspec.Raw, lines))}
            yield _RawPart(hash=part.hash, **descriptors)
        except Fault as fault:
            reason = fault.failure.message
            refusals.append(Refusal(kind="part", name=part.hash[:32], reason=reason))


def _descriptors(raw: _RawPart, service: str, refusals: list[Refusal]) -> dict[str, Any]:
    """The descriptors of each kind; those that are refused are added to `refusals`."""

    def each(kind: str, items: tuple[msgspec.Raw, ...], target: Any) -> tuple[Any, ...]:
        kept = []
        for item in items:
            try:
                found = decode(bytes(item), target)
                if RESERVED_TOOLSETS.get(found.toolset, service) != service:
                    reason = f"the toolset {found.toolset} is reserved"
                    refusals.append(Refusal(kind=kind, name=_name_of(item), reason=reason))
                    continue
                kept.append(found)
            except Fault as fault:
                refusals.append(
                    Refusal(kind=kind, name=_name_of(item), reason=fault.failure.message)
                )
        return tuple(kept)

    return {
        "tools": each("tool", raw.tools, ToolDescriptor),
        "prompts": each("prompt", raw.prompts, PromptDescriptor),
        "resources": each("resource", raw.resources, ResourceDescriptor),
        "resource_templates": each("resource template", raw.resource_templates, ResourceTemplate),
    }


class _Named(Struct):
    name: str = "(unnamed)"


def _name_of(item: msgspec.Raw) -> str:
    try:
        return decode(bytes(item), _Named).name[:80]
    except Fault:
        return "(unreadable)"
