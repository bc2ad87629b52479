"""What differs from the approved definitions of a server, shown and approved by an operator."""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from searchbus_bus.catalog.catalogs import definition_of
from searchbus_contracts import ToolDescriptor
from searchbus_runtime.pins import Held, PinFile

from ..auth.credentials import Credentials
from ..declare.servers import Server
from .probe import probe

__all__ = ["Waiting", "approve_definitions", "differences", "waiting"]

_DIGITS = 32
"""Of a hash, shown and needed: who writes a definition could find a harmless and a harmful one
whose hashes begin with the same dozen.
"""


@dataclass(frozen=True, slots=True)
class Waiting:
    """A definition as the server offers it now, and the approved one where there is one."""

    held: Held
    approved: ToolDescriptor | None


def waiting(server: Server, pins: Path, credentials: Credentials | None = None) -> list[Waiting]:
    """What differs now; the server is asked for its list.

    Raises:
        ProbeFault: the server cannot be asked.
        OSError, ValueError: the file of pins cannot be used.
    """
    pinned = PinFile(pins).read()
    tools = probe(server, credentials).tools.descriptors
    held = pinned.review(server.name, server.target, tools).held
    known = pinned.toolsets.get(server.name)
    approved = {} if known is None else {name: pin.tool for name, pin in known.tools.items()}
    return [Waiting(found, approved.get(name)) for name, found in held.items()]


def differences(found: Iterable[Waiting]) -> Iterator[str]:
    """Lines: for each definition its digits and reasons, then what differs."""
    for one in found:
        yield (f"{one.held.sha256[:_DIGITS]}  {one.held.tool.name}  {'; '.join(one.held.reasons)}")
        old = [] if one.approved is None else _lines(one.approved)
        for line in difflib.unified_diff(
            old, _lines(one.held.tool), "approved", "offered", lineterm=""
        ):
            yield f"  {line}"


def approve_definitions(
    server: Server,
    pins: Path,
    digits: Sequence[str] | None,
    credentials: Credentials | None = None,
) -> list[str]:
    """Approve the definitions with these digits, or (None) all that differ; their names.

    Raises:
        ProbeFault: the server cannot be asked.
        OSError, ValueError: digits that name nothing, or the file of pins cannot be used.
    """
    found = waiting(server, pins, credentials)
    if digits:
        for given in digits:
            if len(given) < _DIGITS or not any(one.held.sha256.startswith(given) for one in found):
                raise ValueError(
                    f"nothing differs that has the digits {given}; see searchbus attach diff "
                    f"{server.name}"
                )
        found = [one for one in found if one.held.sha256.startswith(tuple(digits))]
    with PinFile(pins).changing() as pinned:
        pinned.approve(server.name, server.target, [one.held.tool for one in found])
    return [one.held.tool.name for one in found]


def _lines(tool: ToolDescriptor) -> list[str]:
    text = json.dumps(
        msgspec.to_builtins(definition_of(tool)), indent=2, sort_keys=True, ensure_ascii=False
    )
    return text.split("\n")
