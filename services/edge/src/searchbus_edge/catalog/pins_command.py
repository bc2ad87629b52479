"""`searchbus pins`: what is held of the tools' definitions, and its approval (HOLD_CHANGES)."""

from __future__ import annotations

import asyncio
import difflib
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import msgspec
import typer

from searchbus_bus import Directory, connect
from searchbus_bus.catalog.catalogs import definition_of
from searchbus_contracts import Fault, ToolDescriptor
from searchbus_contracts.services import toolset_owners
from searchbus_runtime import BusAddress, data_folder, find_bus, no_stack
from searchbus_runtime.pins import Held, PinFile, Pins
from searchbus_runtime.services import known_services
from searchbus_runtime.wording import printable

_DIGITS = 32
"""Digits of a hash that are shown and needed: who writes a definition could find a harmless and a
harmful one whose hashes begin with the same dozen.
"""
pins = typer.Typer(
    help="Show and approve changed definitions of tools (SEARCHBUS_HOLD_CHANGES).",
    no_args_is_help=True,
)

FileOption = Annotated[
    Path | None, typer.Option("--file", help="The file of pins (default: <data>/pins.json).")
]
DataOption = Annotated[Path | None, typer.Option(help="Data folder of the running stack.")]


@dataclass(frozen=True, slots=True)
class _Offer:
    """A held tool, who offers it, and its approved definition where there is one."""

    toolset: str
    service: str
    held: Held
    approved: ToolDescriptor | None

    @property
    def digits(self) -> str:
        return self.held.sha256[:_DIGITS]


@pins.command("list")
def list_held(
    file: FileOption = None,
    data: DataOption = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="With both definitions, as JSON.")
    ] = False,
) -> None:
    """List the tools of pinned toolsets that are held, and why.

    Example: searchbus pins list
    """
    with _errors():
        offers = _held(_file(file, data), data)
    if as_json:
        typer.echo(json.dumps([_as_json(offer) for offer in offers]))
        return
    if not offers:
        typer.echo("no definition is held", err=True)
    for offer in offers:
        reasons = "; ".join(offer.held.reasons)
        name = f"{offer.toolset}.{offer.held.tool.name}"
        typer.echo(printable(f"{offer.digits}  {name}  {reasons}"))


@pins.command("diff")
def diff(
    digits: Annotated[str, typer.Argument(help="The first column of `pins list`.")],
    file: FileOption = None,
    data: DataOption = None,
) -> None:
    """Show what differs between the approved definition of a tool and the held one.

    Example: searchbus pins diff 1a2b3c4d5e6f708192a3b4c5d6e7f809
    """
    with _errors():
        (offer,) = _chosen(_held(_file(file, data), data), [digits])
    old = [] if offer.approved is None else _lines(offer.approved)
    for line in difflib.unified_diff(old, _lines(offer.held.tool), "approved", "held", lineterm=""):
        typer.echo(printable(line))


@pins.command("approve")
def approve(
    digits: Annotated[list[str], typer.Argument(help="The first column of `pins list`.")],
    file: FileOption = None,
    data: DataOption = None,
) -> None:
    """Approve held definitions; running edges list them within seconds.

    A definition that changed again since `pins list` has other digits, and is not approved.

    Example: searchbus pins approve 1a2b3c4d5e6f708192a3b4c5d6e7f809
    """
    with _errors():
        found = _file(file, data)
        chosen = _chosen(_held(found, data), digits)
        with found.changing() as pinned:
            for offer in chosen:
                pinned.approve(offer.toolset, offer.service, [offer.held.tool])
    for offer in chosen:
        typer.echo(f"{offer.toolset}.{offer.held.tool.name} is approved", err=True)


def _held(file: PinFile, data: Path | None) -> list[_Offer]:
    """What the services offer now and is not approved, of the toolsets that have pins."""
    pinned = file.read()
    folder = data_folder(data)
    address = find_bus(folder)
    if address is None:
        raise ValueError(no_stack(folder))
    return asyncio.run(_discover(address, pinned))


async def _discover(address: BusAddress, pinned: Pins) -> list[_Offer]:
    bus = await connect(address.url, name="cli", **address.options)
    try:
        directory = Directory(bus, declared=toolset_owners(known_services()))
        await directory.refresh()
    finally:
        await bus.close()
    found = []
    for catalog in directory.catalogs:
        for toolset in catalog.toolsets:
            if toolset not in pinned.toolsets or directory.owner(toolset) != catalog.service:
                continue
            reviewed = pinned.review(toolset, catalog.service, catalog.tools_of(toolset))
            approved = {tool.name: tool for tool in reviewed.tools}
            found += [
                _Offer(toolset, catalog.service, held, approved.get(name))
                for name, held in reviewed.held.items()
            ]
    return found


def _chosen(offers: list[_Offer], digits: list[str]) -> list[_Offer]:
    """The offers that the digits name; raises ValueError for digits that name none."""
    chosen = []
    for given in digits:
        named = [offer for offer in offers if offer.held.sha256.startswith(given)]
        if not named or len(given) < _DIGITS:
            raise ValueError(f"nothing held has the digits {given}; see searchbus pins list")
        chosen += named
    return chosen


def _as_json(offer: _Offer) -> dict[str, object]:
    approved = None if offer.approved is None else definition_of(offer.approved)
    return {
        "toolset": offer.toolset, "tool": offer.held.tool.name, "service": offer.service,
        "sha256": offer.held.sha256, "reasons": offer.held.reasons,
        "held": msgspec.to_builtins(definition_of(offer.held.tool)),
        "approved": msgspec.to_builtins(approved),
    }  # fmt: skip


def _lines(tool: ToolDescriptor) -> list[str]:
    text = json.dumps(
        msgspec.to_builtins(definition_of(tool)), indent=2, sort_keys=True, ensure_ascii=False
    )
    return text.split("\n")


@contextmanager
def _errors() -> Iterator[None]:
    """Report what an operator can mend without a traceback."""
    try:
        yield
    except (OSError, ValueError) as error:
        typer.echo(printable(f"error: {error}"), err=True)
        raise typer.Exit(1) from None
    except Fault as fault:
        typer.echo(printable(f"error: {fault.code}: {fault.failure.message}"), err=True)
        raise typer.Exit(1) from None


def _file(file: Path | None, data: Path | None) -> PinFile:
    return PinFile(file or data_folder(data) / "pins.json")
