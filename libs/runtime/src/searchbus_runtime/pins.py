"""Pins: the definitions of tools that were approved, and what is held because it differs.

The pins of a toolset are complete: a tool that is added later is held as well, since a removal and
an addition can stand for a change. A removed tool stays pinned, for when it is back.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import msgspec
from msgspec import Struct

from searchbus_bus.catalog.catalogs import changes, definition_of, fingerprint
from searchbus_contracts import ToolDescriptor
from searchbus_contracts.codec import canonical

from .files import file_stamp, locked, write_atomically

DIGITS = 32
"""Digits of a hash that are shown, and needed: who writes a definition could find a harmless and a
harmful one whose hashes begin with the same dozen."""


class Pin(Struct, frozen=True, kw_only=True):
    """One approved tool and its `fingerprint`, kept listed while another definition is held."""

    sha256: str
    tool: ToolDescriptor


class PinnedToolset(Struct, kw_only=True):
    """The approved tools of one toolset, by name, of a source such as a service; `refused`: tool →
    hash of the definition that an operator refused."""

    source: str
    tools: dict[str, Pin] = {}
    refused: dict[str, str] = {}


@dataclass(frozen=True, slots=True)
class Held:
    """A tool as it is offered now, which nobody has approved.

    Args:
        sha256: names what is to be approved.
        reasons: clauses; at least one.
        approved: the approved definition, where there is one.
        refused: whether an operator refused it, so that it waits for nobody.
    """

    tool: ToolDescriptor
    sha256: str
    reasons: tuple[str, ...]
    approved: ToolDescriptor | None = None
    refused: bool = False

    @property
    def digits(self) -> str:
        """What an operator types to approve it."""
        return self.sha256[:DIGITS]

    def is_named_by(self, digits: str) -> bool:
        """Whether an operator means this definition."""
        return len(digits) >= DIGITS and self.sha256.startswith(digits)

    def difference(self, name: str) -> Iterator[str]:
        """What differs from the approved definition, line by line; this one is called `name`."""
        import difflib  # here: services do not need it

        old = [] if self.approved is None else _lines(self.approved)
        return difflib.unified_diff(old, _lines(self.tool), "approved", name, lineterm="")


@dataclass(frozen=True, slots=True)
class Reviewed:
    """A toolset's approved tools in the order offered; those in `held`, too, must not be called."""

    tools: tuple[ToolDescriptor, ...]
    held: Mapping[str, Held] = field(default_factory=dict)

    def only_refused(self, offered: Iterable[ToolDescriptor]) -> Reviewed:
        """The same where changes are taken: only what an operator refused is held."""
        refused = {name: held for name, held in self.held.items() if held.refused}
        shown = (refused[t.name].approved if t.name in refused else t for t in offered)
        return Reviewed(tuple(tool for tool in shown if tool is not None), refused)


class Pins(Struct, kw_only=True):
    """The pins of all toolsets, by their names."""

    toolsets: dict[str, PinnedToolset] = {}

    def review(self, toolset: str, source: str, tools: Iterable[ToolDescriptor]) -> Reviewed:
        """Compare what is offered now with what was approved; nothing is approved by this."""
        pinned = self.toolsets.get(toolset)
        listed: list[ToolDescriptor] = []
        held: dict[str, Held] = {}
        for tool in tools:
            pin = pinned.tools.get(tool.name) if pinned is not None else None
            sha256 = fingerprint(tool)
            reasons = _reasons(pinned, pin, source, tool, sha256)
            if not reasons:
                listed.append(tool)
                continue
            approved = None if pin is None else pin.tool
            refused = pinned is not None and pinned.refused.get(tool.name) == sha256
            held[tool.name] = Held(tool, sha256, reasons, approved, refused)
            if approved is not None:
                listed.append(approved)
        return Reviewed(tuple(listed), held)

    def approve(self, toolset: str, source: str, tools: Iterable[ToolDescriptor]) -> None:
        """Pin these definitions; the others stay, unless another source offered them: held."""
        pinned = self.toolsets.get(toolset)
        if pinned is None or pinned.source != source:
            pinned = self.toolsets[toolset] = PinnedToolset(source=source)
        for tool in tools:
            pinned.tools[tool.name] = Pin(sha256=fingerprint(tool), tool=tool)
            pinned.refused.pop(tool.name, None)

    def refuse(self, toolset: str, source: str, tools: Iterable[ToolDescriptor]) -> None:
        """Refuse these definitions: they stay held, and wait for nobody; later ones wait again."""
        pinned = self.toolsets.setdefault(toolset, PinnedToolset(source=source))
        for tool in tools:
            pinned.refused[tool.name] = fingerprint(tool)


def _reasons(
    pinned: PinnedToolset | None, pin: Pin | None, source: str, tool: ToolDescriptor, sha256: str
) -> tuple[str, ...]:
    if pinned is None or pin is None:
        return ("it is new",)
    moved = () if pinned.source == source else (f"{source} offers it instead of {pinned.source}",)
    if pin.sha256 == sha256:
        return moved
    # For Python 1, 1.0 and True are equal; a schema with another of them is another one.
    return (*moved, *(changes(pin.tool, tool) or ("its definition changed",)))


def _lines(tool: ToolDescriptor) -> list[str]:
    definition = msgspec.to_builtins(definition_of(tool))
    return json.dumps(definition, indent=2, sort_keys=True, ensure_ascii=False).split("\n")


class PinFile:
    """JSON of `Pins` at a path, for its owner only, replaced in one step; it may not exist yet."""

    def __init__(self, path: Path) -> None:
        self.path = path
        # Thousands of definitions take long to decode, and are asked for at each change.
        self._last: tuple[object, Pins] | None = None

    def stamp(self) -> tuple[int, ...] | None:
        """Changes with the file's content; None where there is no file. Raises OSError."""
        return file_stamp(self.path)

    def read(self) -> Pins:
        """All pins, none without a file; the caller does not change them. Raises OSError,
        ValueError (damaged)."""
        stamp = self.stamp()
        if self._last is not None and self._last[0] == stamp:
            return self._last[1]
        try:
            content = self.path.read_bytes()
        except FileNotFoundError:
            return Pins()
        try:
            pins = msgspec.json.decode(content, type=Pins)
        except (msgspec.MsgspecError, ValueError, RecursionError) as error:
            raise ValueError(
                f"{self.path} is not a valid file of pins: {error}. Put it back from a copy, or "
                "delete it to approve the present definitions."
            ) from None
        # Replaced meanwhile, the file has another stamp than this one: it is read again.
        self._last = stamp, pins
        return pins

    @contextmanager
    def changing(self) -> Iterator[Pins]:
        """Read the pins, and write them where the block succeeds; raises OSError, ValueError."""
        with locked(self.path):
            # Apart from those that were read, which stay as they are where the block fails.
            pins = Pins(toolsets={
                name: msgspec.structs.replace(kept, tools={**kept.tools}, refused={**kept.refused})
                for name, kept in self.read().toolsets.items()
            })  # fmt: skip
            yield pins
            write_atomically(self.path, canonical(pins), mode=0o600)
            self._last = self.stamp(), pins
