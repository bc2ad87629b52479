"""`searchbus pins`: what is held of the tools' definitions, and its approval (HOLD_CHANGES)."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import msgspec
import typer

from searchbus_bus import Directory
from searchbus_bus.catalog.catalogs import definition_of
from searchbus_contracts.services import toolset_owners
from searchbus_runtime import data_folder, open_bus
from searchbus_runtime.config_sources import configured_path
from searchbus_runtime.pins import PinFile, Pins
from searchbus_runtime.services import known_services
from searchbus_runtime.wording import CommandError, printable

from .pinning import HeldChange, decide, held_changes

pins = typer.Typer(
    help="Show and approve changed definitions of tools (SEARCHBUS_HOLD_CHANGES).",
    no_args_is_help=True,
)

FileOption = Annotated[
    Path | None, typer.Option("--file", help="The file of pins (default: <data>/pins.json).")
]
DataOption = Annotated[Path | None, typer.Option(help="Data folder of the running stack.")]


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
        offers = held_now(_file(file, data), data_folder(data))
    if as_json:
        typer.echo(json.dumps([_as_json(offer) for offer in offers]))
        return
    if not offers:
        typer.echo("no definition is held", err=True)
    for offer in offers:
        refused = ["refused"] if offer.held.refused else []
        reasons = "; ".join((*offer.held.reasons, *refused))
        typer.echo(printable(f"{offer.held.digits}  {offer.name}  {reasons}"))


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
        (offer,) = _chosen(held_now(_file(file, data), data_folder(data)), [digits])
    for line in offer.held.difference("held"):
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
    _decide(digits, file, data, approved=True)


@pins.command("refuse")
def refuse(
    digits: Annotated[list[str], typer.Argument(help="The first column of `pins list`.")],
    file: FileOption = None,
    data: DataOption = None,
) -> None:
    """Refuse held definitions: they stay held, and wait for nobody any more.

    A later change of the tool waits again. `pins approve` still approves a refused one.

    Example: searchbus pins refuse 1a2b3c4d5e6f708192a3b4c5d6e7f809
    """
    _decide(digits, file, data, approved=False)


def _decide(digits: list[str], file: Path | None, data: Path | None, *, approved: bool) -> None:
    with _errors():
        found = _file(file, data)
        chosen = _chosen(held_now(found, data_folder(data)), digits)
        decide(found, chosen, approved=approved)
    for offer in chosen:
        typer.echo(f"{offer.name} is {'approved' if approved else 'refused'}", err=True)


def held_now(file: PinFile, folder: Path) -> list[HeldChange]:
    """What the services offer now and is not approved, of toolsets with pins; `folder` leads to the
    bus. Raises CommandError (no stack), Fault, OSError, ValueError."""
    return asyncio.run(_discover(folder, file.read()))


async def _discover(folder: Path, pinned: Pins) -> list[HeldChange]:
    async with open_bus(folder, "cli") as bus:
        directory = Directory(bus, declared=toolset_owners(known_services()))
        await directory.refresh()
    return held_changes(directory, pinned)


def _chosen(offers: list[HeldChange], digits: list[str]) -> list[HeldChange]:
    """The offers that the digits name; raises ValueError for digits that name none."""
    chosen = []
    for given in digits:
        named = [offer for offer in offers if offer.held.is_named_by(given)]
        if not named:
            raise ValueError(f"nothing held has the digits {given}; see searchbus pins list")
        chosen += named
    return chosen


def _as_json(offer: HeldChange) -> dict[str, object]:
    held = offer.held
    approved = None if held.approved is None else definition_of(held.approved)
    return {
        "toolset": offer.toolset, "tool": held.tool.name, "service": offer.service,
        "sha256": held.sha256, "reasons": held.reasons, "refused": held.refused,
        "held": msgspec.to_builtins(definition_of(held.tool)),
        "approved": msgspec.to_builtins(approved),
    }  # fmt: skip


@contextmanager
def _errors() -> Iterator[None]:
    """Report what an operator can mend without a traceback."""
    try:
        yield
    except (OSError, ValueError) as error:
        raise CommandError(str(error)) from None


def _file(file: Path | None, data: Path | None) -> PinFile:
    folder = data_folder(data)
    return PinFile(file or configured_path("pins_file", "edge", folder) or folder / "pins.json")
