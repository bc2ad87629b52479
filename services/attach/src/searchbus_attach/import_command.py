"""`searchbus attach import`: the servers of a desktop host."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from searchbus_runtime.printable import printable

from .command_options import DataOption, FileOption, file_of, reported_errors
from .host_files import parse_host_file, renamed, starts_searchbus
from .servers import DeclarationFault
from .text_files import read_text

__all__ = ["import_commands"]

import_commands = typer.Typer()


@import_commands.command("import")
def import_servers(
    source: Annotated[Path, typer.Argument(help="The configuration of a desktop host.")],
    file: FileOption = None,
    data: DataOption = None,
) -> None:
    """Attach all servers of Claude Desktop's, Cursor's or VS Code's `mcpServers` JSON.

    A server that is attached already with the same keys stays; with other keys it is an error, and
    nothing is attached.

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
