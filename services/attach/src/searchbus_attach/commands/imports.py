"""`searchbus attach import`: the servers of a desktop host."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import Annotated

import typer

from searchbus_runtime.wording import printable

from ..declare.host_files import parse_host_file, renamed, starts_searchbus
from ..declare.servers import DeclarationFault, Server, variables_of
from ..declare.text_files import read_text
from .options import DataOption, FileOption, file_of, reported_errors

__all__ = ["import_commands"]

import_commands = typer.Typer()


@import_commands.command("import")
def import_servers(
    source: Annotated[Path, typer.Argument(help="The configuration of a desktop host.")],
    file: FileOption = None,
    data: DataOption = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only show what would be attached.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask on a terminal.")] = False,
) -> None:
    """Attach all servers of Claude Desktop's, Cursor's or VS Code's `mcpServers` JSON.

    Shows the command or host of each server and the variables that it gets, and asks on a terminal
    before it attaches them. A server that is attached already with the same keys stays; with other
    keys it is an error, and nothing is attached.

    Example: searchbus attach import ~/.cursor/mcp.json
    """
    with reported_errors():
        text = read_text(source)
        try:
            servers = parse_host_file(text)
        except DeclarationFault as error:
            raise DeclarationFault(f"{source}: {error}") from None
        if not servers:
            raise DeclarationFault(
                f"{source} has no servers, so nothing is attached. Add them in the program that "
                "writes this file, or one by one: searchbus attach add --help"
            )
        own = [name for name, server in servers.items() if starts_searchbus(server)]
        for name in own:
            del servers[name]
        for server in servers.values():
            typer.echo(printable(_shown(server), one_line=True), err=True)
        if dry_run:
            return
        if sys.stdin.isatty() and servers and not yes:
            typer.confirm("Attach them?", abort=True, err=True)
        found = file_of(file, data, may_be_new=True)
        unchanged = found.add(servers.values(), source)
    enabled = [name for name in servers if name not in unchanged and servers[name].enabled]
    are = "1 server is" if len(enabled) == 1 else f"{len(enabled) or 'no'} servers are"
    lines = [f"{are} attached in {found.path}{': ' * bool(enabled)}{', '.join(enabled)}"]
    lines += [
        f"  {name} is disabled in {source}: it is in {found.path.name} with enabled = false"
        for name, server in servers.items()
        if name not in unchanged and not server.enabled
    ]
    lines += [f"  {name} is unchanged" for name in unchanged]
    lines += [f"  {name} is left out: it is searchbus itself" for name in own]
    lines += [
        f"  {given!r} has the name {name} here"
        for given, name in renamed(text).items()
        if name in servers
    ]
    for line in lines:
        typer.echo(printable(line, one_line=True))


def _shown(server: Server) -> str:
    """What a server runs or connects to, with the names of its variables, without their values."""
    what = server.target if server.url else shlex.join([server.command, *server.args])
    given = dict.fromkeys([*variables_of(server), *server.env])
    return f"{server.name}: {what}" + (f" (gets {', '.join(given)})" if given else "")
