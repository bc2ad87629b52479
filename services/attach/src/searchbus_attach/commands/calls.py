"""`searchbus attach waiting`, `allow` and `deny`: calls that a person approves first."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated, Literal

import typer

from searchbus_contracts.attach import ManageRequest
from searchbus_runtime.wording import printable

from ..errors import ServerDeclarationError
from .options import DataOption, ReportingGroup
from .status import ask_manage

call_commands = typer.Typer(cls=ReportingGroup)
IdsArgument = Annotated[
    list[str], typer.Argument(help="Ids of the calls, as `attach waiting` shows them.")
]


@call_commands.command("waiting")
def waiting(data: DataOption = None) -> None:
    """Show the calls that wait until a person approves them.

    Example: searchbus attach waiting
    """
    for one in ask_manage(data, ManageRequest(action="waiting")).waiting:
        minutes = max(0, int((time.time() - one.since_s) // 60))
        line = f"{one.id}  {one.server} {one.tool}  {one.caller}  {minutes} min  {one.arguments}"
        typer.echo(printable(line, one_line=True))


@call_commands.command("allow")
def allow(ids: IdsArgument, data: DataOption = None) -> None:
    """Approve calls that wait: each may be made once, unchanged, within ten minutes.

    Example: searchbus attach allow 1a2b3c4d5e6f
    """
    _decide("allow", ids, data, "approved")


@call_commands.command("deny")
def deny(ids: IdsArgument, data: DataOption = None) -> None:
    """Refuse calls that wait.

    Example: searchbus attach deny 1a2b3c4d5e6f
    """
    _decide("deny", ids, data, "refused")


def _decide(action: Literal["allow", "deny"], ids: list[str], data: Path | None, what: str) -> None:
    done = ask_manage(data, ManageRequest(action=action, digits=tuple(ids))).done
    for one in done:
        typer.echo(f"{one}: {what}")
    if missing := [one for one in ids if one not in done]:
        raise ServerDeclarationError(
            f"No call waits as {', '.join(missing)}. See those that wait: searchbus attach waiting"
        )
