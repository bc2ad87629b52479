"""Which files all edges share (setting SHARE_FILES), and what their entries are."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from typing import Any

from searchbus_bus import NEEDED_TIMEOUT_S, Bus
from searchbus_runtime.pins import PinFile
from searchbus_runtime.shared_file import MAX_BUCKET_BYTES, Entries, SharedFile

from .catalog.pinning import Pinning
from .settings import EdgeSettings

KEYS, PINS = "keys", "pins"


@asynccontextmanager
async def shared_files(bus: Bus, settings: EdgeSettings) -> AsyncIterator[Mapping[str, SharedFile]]:
    """The files that this edge uses and shares, by their names here; followed inside the block."""
    async with AsyncExitStack() as stack:
        found: dict[str, SharedFile] = {}
        if settings.share_files:
            bucket = await bus.key_value(
                "edge_files", ttl_s=None, max_bytes=MAX_BUCKET_BYTES, timeout_s=NEEDED_TIMEOUT_S
            )
            shared = partial(SharedFile, store=bucket)
            if settings.mode == "static" and settings.key_file is not None:
                found[KEYS] = shared(settings.key_file, name=KEYS, split=split_keys, join=join_keys)
            if settings.hold_changes and settings.pin_file is not None:
                found[PINS] = shared(settings.pin_file, name=PINS, split=split_pins, join=join_pins)
        for file in found.values():
            await file.start()
            stack.push_async_callback(file.close)
        yield found


def pinning(settings: EdgeSettings, shared: Mapping[str, SharedFile]) -> Pinning | None:
    """What holds changed definitions, if anything; where `shared`, it waits for the pins of all
    edges."""
    if not settings.hold_changes or settings.pin_file is None:
        return None
    file = shared.get(PINS)
    known = (lambda: True) if file is None else (lambda: file.reached)
    return Pinning(PinFile(settings.pin_file), settings.hold_changes, may_pin=known)


def split_keys(content: Any) -> Entries:
    """The entries of a file of keys, by their ids."""
    return {record["id"]: record for record in content["keys"]}


def join_keys(entries: Entries) -> Any:
    """A file of keys."""
    return {"keys": list(entries.values())}


_REFUSED = "refused"


def split_pins(content: Any) -> Entries:
    """The entries of a file of pins: the source of each toolset, and each of its tools, approved
    (`toolset.tool`) or refused (`toolset.tool.refused`).
    """
    found: Entries = {}
    for toolset, pinned in content["toolsets"].items():
        found[toolset] = pinned["source"]
        for tool, pin in pinned["tools"].items():
            found[f"{toolset}.{tool}"] = pin
        for tool, sha256 in pinned["refused"].items():
            found[f"{toolset}.{tool}.{_REFUSED}"] = sha256
    return found


def join_pins(entries: Entries) -> Any:
    """A file of pins; a tool without a toolset is left out."""
    toolsets: dict[str, Any] = {
        name: {"source": source, "tools": {}, "refused": {}}
        for name, source in entries.items()
        if "." not in name
    }
    for name, value in entries.items():
        toolset, _, tool = name.partition(".")
        if tool and toolset in toolsets:
            tool, _, kind = tool.partition(".")
            toolsets[toolset]["refused" if kind == _REFUSED else "tools"][tool] = value
    return {"toolsets": toolsets}
