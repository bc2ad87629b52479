"""What waits for an operator: definitions that changed (`searchbus attach diff`, `approve` and
`refuse`) and calls that a person approves first (`waiting`, `allow` and `deny`).
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated, Literal

import typer

from searchbus_contracts.attach import ManageRequest
from searchbus_runtime.wording import printable

from ..errors import ServerDeclarationError
from .options import (
    DataOption,
    FileOption,
    NameArgument,
    ReportingGroup,
    credentials_for,
    file_of,
    pins_of,
    server_of,
)
from .status import ask_manage

decision_commands = typer.Typer(cls=ReportingGroup)
_NOTHING_DIFFERS = "nothing differs from what was approved"
DigitsArgument = Annotated[
    list[str] | None,
    typer.Argument(help="Digits of the definitions, as `attach diff` shows them."),
]
EveryOption = Annotated[bool, typer.Option("--all", help="Everything that differs now.")]


@decision_commands.command("diff")
def diff(
    name: NameArgument,
    file: FileOption = None,
    data: DataOption = None,
) -> None:
    """Show what a server's definitions say now and what was approved.

    Example: searchbus attach diff files
    """
    server = server_of(file_of(file, data), name)
    from .approving import differences, waiting

    found = waiting(server, pins_of(data), credentials_for(server, data))
    lines = list(differences(found))
    for line in lines:
        typer.echo(printable(line))
    if not lines:
        typer.echo(_NOTHING_DIFFERS, err=True)


@decision_commands.command("approve")
def approve(
    name: NameArgument,
    digits: DigitsArgument = None,
    every: EveryOption = False,
    file: FileOption = None,
    data: DataOption = None,
) -> None:
    """Approve definitions that changed; a running stack lists them within seconds.

    A definition that changed again since `attach diff` has other digits, and is not approved.

    Example: searchbus attach approve files 1a2b3c4d5e6f708192a3b4c5d6e7f809
    """
    _decide(name, digits, every, file, data, approved=True)


@decision_commands.command("refuse")
def refuse(
    name: NameArgument,
    digits: DigitsArgument = None,
    every: EveryOption = False,
    file: FileOption = None,
    data: DataOption = None,
) -> None:
    """Refuse definitions that changed: they stay held, and wait for nobody any more.

    The approved definition stays listed; calls of a refused one are refused. A later change of it
    waits again. `attach approve` still approves a refused one.

    Example: searchbus attach refuse files 1a2b3c4d5e6f708192a3b4c5d6e7f809
    """
    _decide(name, digits, every, file, data, approved=False)


def _decide(
    name: str,
    digits: list[str] | None,
    every: bool,
    file: Path | None,
    data: Path | None,
    *,
    approved: bool,
) -> None:
    """Approve or refuse definitions of a server, and say so. Raises ValueError."""
    server = server_of(file_of(file, data), name)
    verb, done = ("approve", "approved") if approved else ("refuse", "refused")
    if bool(digits) == every:
        raise ValueError(
            f"name the digits of what you {verb}, or give --all; the digits are in: "
            f"searchbus attach diff {name}"
        )
    from .approving import decide_definitions

    path, credentials = pins_of(data), credentials_for(server, data)
    found = decide_definitions(server, path, digits, credentials, approved=approved)
    for one in found:
        typer.echo(printable(f"{name}.{one} is {done}", one_line=True))
    if not found:
        typer.echo(_NOTHING_DIFFERS, err=True)


IdsArgument = Annotated[
    list[str], typer.Argument(help="Ids of the calls, as `attach waiting` shows them.")
]


@decision_commands.command("waiting")
def waiting(data: DataOption = None) -> None:
    """Show the calls that wait until a person approves them.

    Example: searchbus attach waiting
    """
    for one in ask_manage(data, ManageRequest(action="waiting")).waiting:
        minutes = max(0, int((time.time() - one.since_s) // 60))
        line = f"{one.id}  {one.server} {one.tool}  {one.caller}  {minutes} min  {one.arguments}"
        typer.echo(printable(line, one_line=True))


@decision_commands.command("allow")
def allow(ids: IdsArgument, data: DataOption = None) -> None:
    """Approve calls that wait: each may be made once, unchanged, within ten minutes.

    Example: searchbus attach allow 1a2b3c4d5e6f708192a3b4c5d6e7f809
    """
    _decide_calls("allow", ids, data, "approved")


@decision_commands.command("deny")
def deny(ids: IdsArgument, data: DataOption = None) -> None:
    """Refuse calls that wait.

    Example: searchbus attach deny 1a2b3c4d5e6f708192a3b4c5d6e7f809
    """
    _decide_calls("deny", ids, data, "refused")


def _decide_calls(
    action: Literal["allow", "deny"], ids: list[str], data: Path | None, what: str
) -> None:
    done = ask_manage(data, ManageRequest(action=action, digits=tuple(ids))).done
    for one in done:
        typer.echo(f"{one}: {what}")
    if missing := [one for one in ids if one not in done]:
        raise ServerDeclarationError(
            f"No call waits as {', '.join(missing)}. See those that wait: searchbus attach waiting"
        )
