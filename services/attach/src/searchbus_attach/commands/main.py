"""`searchbus attach`: other MCP servers as toolsets of searchbus."""

from __future__ import annotations

import json
import shlex
import sys
import time
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer

from searchbus_contracts.attach import ManageRequest
from searchbus_runtime import data_folder
from searchbus_runtime.wording import printable

from ..declare.attach_file import read_text
from ..declare.host_files import parse_host_file, renamed, starts_searchbus
from ..declare.servers import Server, parse_server, variables_of
from ..declare.views import DeclaredView
from ..errors import ServerDeclarationError
from .deciding import decision_commands
from .login import login_commands
from .options import (
    CommandAfterDashes,
    DataOption,
    FileOption,
    JsonOption,
    NameArgument,
    NamesArgument,
    NewNameArgument,
    ReportingGroup,
    credentials_for,
    file_of,
    options_again,
    server_of,
)
from .status import (
    FAULTY,
    ask_manage,
    ask_status,
    masked,
    not_running,
    notices,
    shown_selection,
    shown_server,
    state_of,
    table,
)
from .viewing import view_commands

_FOLLOW_EVERY_S = 1.0
_KNOWN_CHARS = 2000
"""How much of the end of a log is looked for in the next reading of it."""

attach = typer.Typer(
    cls=ReportingGroup,
    help="Attach other MCP servers: each becomes a toolset of searchbus.",
    no_args_is_help=True,
)
attach.add_typer(login_commands)
attach.add_typer(decision_commands)
attach.add_typer(view_commands)


@attach.command("add", cls=CommandAfterDashes)
def add(
    name: NewNameArgument,
    command: Annotated[
        list[str] | None,
        typer.Argument(help="The address; or after --: the command."),
    ] = None,
    url: Annotated[str, typer.Option(help="The address of a remote server.")] = "",
    header: Annotated[
        list[str] | None, typer.Option(help="'Name: value' for a URL; may be repeated.")
    ] = None,
    transport: Annotated[
        str | None, typer.Option(help="Transport of a URL: http (default) or sse, the older one.")
    ] = None,
    auth: Annotated[
        list[str] | None,
        typer.Option(help="KEY=VALUE of the sign-in to a URL, such as type; may be repeated."),
    ] = None,
    state: Annotated[
        str | None, typer.Option(help="stateless (default), stateful or per_user.")
    ] = None,
    env: Annotated[
        list[str] | None, typer.Option(help="NAME=VALUE for a command; may be repeated.")
    ] = None,
    policy: Annotated[
        str | None, typer.Option(help="What to do with changed definitions: hold, warn or accept.")
    ] = None,
    confine: Annotated[
        str | None,
        typer.Option(help="What a command cannot reach: none, processes (default) or files."),
    ] = None,
    path: Annotated[
        list[str] | None,
        typer.Option(
            help="With --confine files: what a command may read and write; may be repeated."
        ),
    ] = None,
    file: FileOption = None,
    data: DataOption = None,
) -> None:
    """Attach a server; a running stack starts it within seconds.

    A value may be ${NAME}: a variable of searchbus's environment, or a file in the folder of
    SEARCHBUS_SECRETS_DIR. It is kept out of the file of servers.

    Example: searchbus attach add files -- npx -y @modelcontextprotocol/server-filesystem /srv
    """
    keys: dict[str, Any] = {}
    if command and len(command) == 1 and "://" in command[0] and not url:
        url, command = command[0], None
    if command:
        keys |= {"command": command[0], "args": command[1:]}
    given = {
        "url": url, "transport": transport, "state": state, "policy": policy, "confine": confine,
        "paths": path,
    }  # fmt: skip
    keys |= {key: value for key, value in given.items() if value}
    if header:
        keys["headers"] = dict(_pair(text, ":", "--header 'Name: value'") for text in header)
    if auth:
        pairs: dict[str, Any] = dict(_pair(text, "=", "--auth KEY=VALUE") for text in auth)
        if "scopes" in pairs:
            pairs["scopes"] = pairs["scopes"].split()
        keys["auth"] = pairs
    if env:
        keys["env"] = dict(_pair(text, "=", "--env NAME=VALUE") for text in env)
    found = file_of(file, data, may_be_new=True)
    server = parse_server(name, keys)
    if found.add([server]):
        typer.echo(f"{name} is attached already in {found.path}, with the same keys")
        return
    # Imported here, as below: it takes longer than `--help`.
    from ..transports.child import has_program

    if command and not has_program(server):
        typer.echo(
            printable(
                f"warning: there is no program {server.command} here; install it, or attach it "
                "anew with its whole path"
            ),
            err=True,
        )
    further = f"searchbus attach test {name}{options_again(file, data)}"
    typer.echo(f"{name} is attached in {found.path}; check it: {further}")


@attach.command("list")
def list_servers(
    file: FileOption = None, data: DataOption = None, as_json: JsonOption = False
) -> None:
    """List the servers, their state and what waits for approval.

    Example: searchbus attach list
    """
    found_file = file_of(file, data).read_all(beside_faults=True)
    declared = found_file.servers
    status = ask_status(data_folder(data))
    running = {server.name: server for server in status.servers} if status else {}
    if as_json:
        rows = [
            msgspec.to_builtins(running[name]) if name in running
            else {"name": name, "target": server.target, "state": state_of(server)}
            for name, server in declared.items()
        ]  # fmt: skip
        rows += [
            {"name": name, "state": FAULTY, "problem": fault}
            for name, fault in found_file.faults.items()
        ]
        typer.echo(json.dumps(rows))
        return
    for line in notices(found_file, status, data_folder(data)):
        typer.echo(printable(line), err=True)
    for line in table(found_file, status):
        typer.echo(line)


@attach.command("show")
def show(
    name: NameArgument,
    file: FileOption = None,
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show one server: its keys without values that may be secret, its view, its state, its tools.

    Of a view of several servers: its keys and its tools.

    Example: searchbus attach show files
    """
    found_file = file_of(file, data)
    declared = found_file.read_all()
    if name in declared.selections:
        selection = declared.selections[name]
        typer.echo(shown_selection(selection, ask_status(data_folder(data)), as_json=as_json))
        return
    server = server_of(found_file, name)
    view = msgspec.to_builtins(declared.views.get(name, DeclaredView()))
    status = ask_status(data_folder(data), name)
    found = next(iter(status.servers), None) if status is not None else None
    if as_json:
        state = msgspec.to_builtins(found) if found is not None else {"state": state_of(server)}
        typer.echo(json.dumps({"keys": masked(server), "view": view, **state}))
        return
    for line in shown_server(server, view, found):
        typer.echo(printable(line, one_line=True))
    if status is None:
        typer.echo(not_running(data_folder(data)), err=True)


@attach.command("test")
def try_server(
    name: NameArgument,
    file: FileOption = None,
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Start or reach a server once, and read its lists; needs no running stack.

    Example: searchbus attach test files
    """
    server = server_of(file_of(file, data), name)
    if not as_json:
        # It may take as long as start_timeout_s.
        typer.echo(f"starting {name} …" if server.command else f"asking {name} …", err=True)
    # It imports the SDK, which takes longer than all the rest.
    from .approving import probe

    probed = probe(server, credentials_for(server, data))
    tools, contents = probed.tools, probed.contents
    refused = {**tools.refused, **contents.refused}
    if as_json:
        typer.echo(
            json.dumps({
                "server": probed.server_info, "protocol": probed.protocol,
                "seconds": probed.seconds, "tools": [tool.name for tool in tools.descriptors],
                "prompts": [prompt.name for prompt in contents.prompts],
                "resources": [resource.uri for resource in contents.resources],
                "refused": refused,
            })
        )  # fmt: skip
        return
    typer.echo(
        printable(
            f"{name} works: {probed.server_info or 'no name'}, MCP {probed.protocol}, "
            f"{len(tools.descriptors)} tools, {len(contents.prompts)} prompts, "
            f"{len(contents.resources)} resources in {probed.seconds:.1f} s",
            one_line=True,
        )
    )
    for item, reason in refused.items():
        typer.echo(printable(f"  {item} cannot be listed: {reason}", one_line=True))


@attach.command("remove")
def remove(names: NamesArgument, file: FileOption = None, data: DataOption = None) -> None:
    """Detach servers; a running stack ends them within seconds.

    Example: searchbus attach remove files
    """
    found = file_of(file, data)
    for name in names:
        found.remove(name)
        typer.echo(f"{name} is removed")


@attach.command("restart")
def restart(names: NamesArgument, data: DataOption = None) -> None:
    """Stop servers of the running stack and start them anew.

    Example: searchbus attach restart files
    """
    ask_manage(data, ManageRequest(action="restart", servers=tuple(names)))
    typer.echo(f"{', '.join(names)}: started anew")


@attach.command("logs")
def logs(
    name: NameArgument,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Go on with what it writes from now on.")
    ] = False,
    data: DataOption = None,
) -> None:
    """Print what a server's command wrote to standard error last.

    Example: searchbus attach logs files
    """
    shown = ""
    while True:
        log = ask_manage(data, ManageRequest(action="log", servers=(name,))).log
        if not log and not follow:
            typer.echo(f"{name} has printed nothing to standard error", err=True)
        for line in newer_part(shown, log).splitlines():
            typer.echo(printable(line))
        if not follow:
            return
        shown = log
        time.sleep(_FOLLOW_EVERY_S)


def newer_part(before: str, now: str) -> str:
    """What the end of a log has that an earlier end of it has not."""
    known = before[-_KNOWN_CHARS:]
    place = now.rfind(known) if known else -1
    return now if place < 0 else now[place + len(known) :]


def _pair(text: str, sign: str, form: str) -> tuple[str, str]:
    name, found, value = text.partition(sign)
    if not (found and name.strip()):
        # Without its text, which can be a secret.
        raise ServerDeclarationError(f"there is no {sign!r} behind a name: write {form}.")
    return name.strip(), value.strip() if sign == ":" else value


@attach.command("import")
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
    text = read_text(source)
    try:
        servers = parse_host_file(text)
    except ServerDeclarationError as error:
        raise ServerDeclarationError(f"{source}: {error}") from None
    if not servers:
        raise ServerDeclarationError(
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
