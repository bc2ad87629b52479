"""`searchbus connect`: the entry of searchbus in a client's settings, shown, written and tried.

`searchbus init` writes the same entries, by `command_changes`.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from http import HTTPStatus
from http.client import HTTPException
from pathlib import Path
from typing import IO, Annotated, Any

import typer

from searchbus_contracts import VERSION
from searchbus_runtime.client_entries import (
    CLIENTS,
    Client,
    address_entry,
    command_entry,
    start_command,
)
from searchbus_runtime.config_file import named_config, use_config
from searchbus_runtime.state import open_data_folder
from searchbus_runtime.wording import nearest, printable

from .clients import FileChange, planned_entry, show, write, written_entry
from .config import Config
from .mcp_client import McpError, endpoint, http_address, post, reply_of
from .output import echo, fail, tell

ALIASES: Mapping[str, str] = {"claude": "claude-code", "code": "vscode"}
"""Other names of clients: what starts them in a terminal."""
REVISION = "2025-06-18"
"""The revision of the handshake: the one that today's clients send."""
CHECK_S = 600.0
"""A command may start a stack, which reads its models first."""
_MOST_BYTES = 64 * 2**20
_PASSING = re.compile(r"[/\\](?:archive|environments|builds)-v\d+[/\\]")
"""Folders of uv's cache, from which `uvx` starts a command."""
Request = Callable[[str, dict[str, Any]], dict[str, Any]]


def connect(
    client: Annotated[
        str, typer.Argument(help=f"One of {', '.join((*CLIENTS, *ALIASES))}.", metavar="CLIENT")
    ],
    toolset: Annotated[
        str | None, typer.Option(help="Offer one toolset or view only, as /mcp/<toolset> does.")
    ] = None,
    url: Annotated[
        str | None,
        typer.Option(help="Address of an edge elsewhere; its key is read from SEARCHBUS_TOKEN."),
    ] = None,
    data: Annotated[Path | None, typer.Option(help="Data folder of the stack.")] = None,
    config: Config = None,
    only_print: Annotated[
        bool, typer.Option("--print", help="Show what would be written, and write nothing.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Write without a question.")] = False,
) -> None:
    """Let a client use searchbus: write its entry, and try that it works.

    Shows what it writes before it does. The client's file is kept beside the new one; other
    servers, comments and keys in it stay. Afterwards the entry is read again and used as the
    client uses it: a handshake, and the list of tools.

    Example: searchbus connect cursor --toolset web
    """
    use_config(config)
    known = named_client(client, "")
    if url is not None:
        change = _address_change(known, url, toolset)
    else:
        command = start_command(open_data_folder(data), named_config(), toolset)
        (change,) = command_changes([known], command)
    _apply(change, only_print=only_print, yes=yes)
    if not only_print:
        tell("trying the entry …")
        server, tools = try_entry(written_entry(known))
        echo(f"{known.title} reaches {printable(server, one_line=True)}: {tools} tools.")
        echo("Start it again, or its list of servers: it reads its settings at the start.")


def named_client(name: str, option: str) -> Client:
    """A client by its name, which `option` gave; raises typer.Exit where there is none."""
    found = CLIENTS.get(ALIASES.get(name, name))
    if found is None:
        known = nearest(name, [*CLIENTS, *ALIASES])
        raise fail(f"{option}{name}: there is no such client.{known}", 2)
    return found


def command_changes(clients: Sequence[Client], command: Sequence[str]) -> list[FileChange]:
    """The changes by which clients start a command; raises ClientFileError."""
    if clients and _PASSING.search(command[0]):
        tell(f"{command[0]} is in a cache that may be emptied. Better: uv tool install searchbus")
    return [planned_entry(client, command_entry(client, command)) for client in clients]


def show_change(change: FileChange) -> None:
    """Print what a change does to a client's file."""
    if change.is_needed:
        show(change)
    else:
        echo(f"{change.path} has the entry already")


def _address_change(client: Client, url: str, toolset: str | None) -> FileChange:
    if not client.address:
        raise fail(
            f"{client.title} only starts commands on its own machine. Leave out --url, or add the "
            "address as a connector in its settings.",
            2,
        )
    try:
        http_address(url)
    except McpError:
        raise fail(f"--url {url}: Write it like https://search.example.org/mcp.", 2) from None
    key = os.environ.get("SEARCHBUS_TOKEN", "").strip()
    return planned_entry(client, address_entry(client, endpoint(url, None, toolset).url, key))


def _apply(change: FileChange, *, only_print: bool, yes: bool) -> None:
    """Show a change; write it after a question. Raises typer.Exit."""
    show_change(change)
    if only_print or not change.is_needed:
        return
    if not yes:
        if not sys.stdin.isatty():
            raise fail("There is no terminal to ask on. Give --yes, or --print to only look.", 2)
        typer.confirm("Write this?", default=True, abort=True)
    write(change)


def try_entry(entry: Mapping[str, Any]) -> tuple[str, int]:
    """Use an entry as a client; the server's name and its number of tools. Raises McpError with the
    last output."""
    reached = _by_command if "command" in entry else _by_address
    with reached(entry) as request:
        client = {"name": "searchbus-connect", "version": VERSION}
        hello = {"protocolVersion": REVISION, "capabilities": {}, "clientInfo": client}
        info = request("initialize", hello).get("serverInfo", {})
        request("notifications/initialized", {})
        tools, cursor = 0, None
        while True:
            page = request("tools/list", {"cursor": cursor} if cursor else {})
            tools += len(page.get("tools", ()))
            cursor = page.get("nextCursor")
            if not cursor:
                return f"{info.get('name', 'a server')} {info.get('version', '')}".strip(), tools


def _message(method: str, params: dict[str, Any]) -> dict[str, Any]:
    message: dict[str, Any] = {"jsonrpc": "2.0", "method": method, "params": params}
    return message if method.startswith("notifications/") else {**message, "id": 1}


def _result(method: str, reply: Mapping[str, Any]) -> dict[str, Any]:
    if "error" in reply:
        raise McpError(f"{method} failed: {reply['error'].get('message', 'unknown error')}")
    result: dict[str, Any] = reply["result"]
    return result


@contextmanager
def _by_address(entry: Mapping[str, Any]) -> Iterator[Request]:
    url = str(next(entry[key] for key in ("url", "httpUrl") if key in entry))
    headers = dict(entry.get("headers", {}))

    def request(method: str, params: dict[str, Any]) -> dict[str, Any]:
        try:
            answer = post(url, _message(method, params), headers, CHECK_S)
        except (OSError, HTTPException, ValueError) as error:
            raise McpError(
                f"{url} does not answer ({type(error).__name__}). Is the stack running there? "
                "The entry is written; try again by the same command."
            ) from None
        if answer.status == HTTPStatus.UNAUTHORIZED:
            raise McpError(f"{url} asks for a key. Give it in SEARCHBUS_TOKEN, and run this again.")
        if session := answer.headers.get("mcp-session-id"):
            headers["mcp-session-id"] = session
        return {} if method.startswith("notifications/") else _result(method, reply_of(url, answer))

    yield request


@contextmanager
def _by_command(entry: Mapping[str, Any]) -> Iterator[Request]:
    command = [str(entry["command"]), *map(str, entry.get("args", ()))]
    own = {str(name): str(value) for name, value in entry.get("env", {}).items()}
    with tempfile.TemporaryFile() as log:
        try:
            process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log,
                env={**os.environ, **own},
            )  # fmt: skip
        except OSError as error:
            raise McpError(f"{command[0]} cannot be started ({error.strerror}).") from None
        ended = threading.Timer(CHECK_S, process.kill)
        ended.start()
        try:
            yield lambda method, params: _ask(process, method, params, log)
        finally:
            ended.cancel()
            assert process.stdin is not None
            with suppress(BrokenPipeError):  # what it never read
                process.stdin.close()
            _end(process)


def _end(process: subprocess.Popen[bytes]) -> None:
    """Wait for the end of a command whose input is closed; one that stays is ended."""
    for end in (process.terminate, process.kill):
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            end()
    process.wait()


def _ask(
    process: subprocess.Popen[bytes], method: str, params: dict[str, Any], log: IO[bytes]
) -> dict[str, Any]:
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        process.stdin.write(json.dumps(_message(method, params)).encode() + b"\n")
        process.stdin.flush()
        if method.startswith("notifications/"):
            return {}
        while line := process.stdout.readline(_MOST_BYTES):
            reply = json.loads(line)
            if isinstance(reply, dict) and reply.get("id") == 1 and "method" not in reply:
                return _result(method, reply)
        why = "it ended"
    except BrokenPipeError:
        why = "it ended"
    except ValueError:
        why = "it wrote what is not JSON"
    log.seek(0)
    said = log.read().decode(errors="replace").strip().splitlines()
    raise McpError(
        f"The command did not answer {method}: {why}"
        + (f". It printed: {said[-1].removeprefix('error: ')}" if said else ".")
    )
