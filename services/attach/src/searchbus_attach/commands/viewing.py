"""`searchbus attach view`: the view of a server, and what callers would see by another one."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import msgspec
import typer

from searchbus_contracts.attach import ManageRequest, ViewPreview
from searchbus_runtime.wording import printable

from ..declare.attach_file import read_text
from ..errors import ServerDeclarationError
from .options import DataOption, JsonOption, NameArgument, ReportingGroup
from .status import ask_manage

view_commands = typer.Typer(cls=ReportingGroup)


@view_commands.command("view")
def view(
    name: NameArgument,
    source: Annotated[
        Path | None, typer.Argument(help="A file with another view, as TOML; -: standard input.")
    ] = None,
    save: Annotated[
        bool, typer.Option("--save", help="Take it in the place of the view that counts.")
    ] = False,
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Print a server's view; or show what callers would see by another one, and save it.

    The file has the keys of the table `view` of the server: allow, deny, tools and others. An empty
    one takes the view away.

    Example: searchbus attach view files reading.toml --save
    """
    if source is None:
        if save:
            raise ServerDeclarationError(
                "Name the file of the view to save, or - for standard input."
            )
        found = ask_manage(data, ManageRequest(action="view", servers=(name,)))
        if as_json:
            typer.echo(json.dumps({"view": found.text, **_builtins(found.view)}))
            return
        typer.echo(printable(found.text.rstrip("\n")) or f"# {name} has no view: all is shown")
        return
    text = sys.stdin.read() if str(source) == "-" else read_text(source)
    shown = ask_manage(data, ManageRequest(action="preview", servers=(name,), text=text))
    if save:
        ask_manage(data, ManageRequest(
            action="save_view", servers=(name,), text=text, digits=(shown.stamp,)
        ))  # fmt: skip
    if as_json:
        typer.echo(json.dumps(_builtins(shown.view)))
    else:
        for line in _lines(shown.view):
            typer.echo(printable(line, one_line=True))
    done = "the view is saved" if save else "nothing is saved; add --save"
    typer.echo(f"tools of {name} that change: {shown.view.changed}; {done}", err=True)


def _lines(shown: ViewPreview) -> Iterator[str]:
    for tool in shown.tools:
        listed = tool.listed_as or "not listed"
        if tool.listed_as:
            listed += f"({', '.join(tool.arguments)})"
        yield f"{tool.name}  {listed}" + (
            f"  changed: {', '.join(tool.changes)}" if tool.changes else ""
        )
    if shown.more:
        yield f"and {shown.more} more"
    for problem in shown.problems:
        yield f"view problem: {problem}"


def _builtins(shown: ViewPreview) -> dict[str, object]:
    found: dict[str, object] = msgspec.to_builtins(shown)
    return found
