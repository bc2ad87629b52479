"""How programs name searchbus in their settings: for `searchbus init` and for the console."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .files import expanded
from .python import python

NAME = "searchbus"


@dataclass(frozen=True, slots=True)
class Client:
    """A program that uses MCP servers.

    Args:
        title: its name for people.
        folder: of its settings; it exists where the program was used.
        file: the settings, in which the servers are.
        key: of the object with the servers.
        typed: whether an entry says how it is reached: `stdio` or `http`.
        address: the key of a server's address in an entry; empty where it only starts commands.
    """

    title: str
    folder: Callable[[], Path]
    file: str
    key: str = "mcpServers"
    typed: bool = False
    address: str = "url"

    @property
    def path(self) -> Path:
        """Its file of settings on this machine."""
        return self.folder() / self.file

    @property
    def is_used(self) -> bool:
        """Whether the program has settings on this machine."""
        return self.path.exists() if self.folder() == expanded("~") else self.folder().is_dir()


def _programs_folder() -> Path:
    """Where programs with windows keep their settings."""
    if sys.platform == "darwin":
        return expanded("~") / "Library" / "Application Support"
    if sys.platform == "win32":
        return Path(os.environ.get("APPDATA") or expanded("~") / "AppData" / "Roaming")
    return Path(os.environ.get("XDG_CONFIG_HOME") or expanded("~") / ".config")


CLIENTS: Mapping[str, Client] = {
    "claude-desktop": Client(
        "Claude Desktop",
        lambda: _programs_folder() / "Claude",
        "claude_desktop_config.json",
        address="",
    ),
    "claude-code": Client(
        "Claude Code",
        lambda: Path(os.environ.get("CLAUDE_CONFIG_DIR") or expanded("~")),
        ".claude.json",
        typed=True,
    ),
    "cursor": Client("Cursor", lambda: expanded("~") / ".cursor", "mcp.json"),
    "vscode": Client(
        "VS Code", lambda: _programs_folder() / "Code" / "User", "mcp.json", "servers", typed=True
    ),
}


def command_entry(client: Client, command: Sequence[str]) -> dict[str, Any]:
    """The entry of a server that the program starts."""
    kind = {"type": "stdio"} if client.typed else {}
    return {**kind, "command": command[0], "args": list(command[1:])}


def address_entry(client: Client, url: str, key: str = "") -> dict[str, Any]:
    """The entry of a server at an address, with a bearer token unless `key` is empty."""
    kind = {"type": "http"} if client.typed else {}
    headers = {"headers": {"Authorization": f"Bearer {key}"}} if key else {}
    return {**kind, client.address: url, **headers}


def start_command(
    folder: Path, config: Path | None = None, toolset: str | None = None
) -> list[str]:
    """The command by which a client starts searchbus.

    A client has another environment than a shell, so the command is an absolute path, and the data
    folder is named. A link to the command stays one: it outlives a new version.

    Args:
        config: the configuration file, where it is not the one of the data folder.
        toolset: offer this one only.
    """
    here = Path(sys.argv[0])
    found = here if here.name == NAME and here.is_file() else shutil.which(NAME)
    command = [str(Path(found).absolute())] if found else python("-m", "searchbus_cli")
    named = [] if config is None else ["--config", str(config)]
    only = [] if toolset is None else ["--toolset", toolset]
    return [*command, "stdio", "--data", str(folder), *named, *only]


@dataclass(frozen=True, slots=True)
class Snippet:
    """What a person copies for one program.

    Args:
        program: its name, as `searchbus init --client` takes it where that knows the program.
        where: the file that it goes into, or what to do with it.
    """

    program: str
    title: str
    where: str
    text: str


def snippets(url: str, key: str = "", command: Sequence[str] | None = None) -> Iterator[Snippet]:
    """The entry of each program for an endpoint; `command`: what this machine can start, if any."""
    for name, client in CLIENTS.items():
        if name == "claude-code":
            header = ["--header", f"Authorization: Bearer {key}"] if key else []
            words = ["claude", "mcp", "add", "--transport", "http", NAME, url, *header]
            yield Snippet(name, client.title, "Run in a terminal.", shlex.join(words))
        elif client.address:
            entry = {client.key: {NAME: address_entry(client, url, key)}}
            yield Snippet(name, client.title, f"Into {client.file}.", json.dumps(entry, indent=2))
        elif command is not None:
            entry = {client.key: {NAME: command_entry(client, command)}}
            yield Snippet(name, client.title, f"Into {client.file}.", json.dumps(entry, indent=2))
    lines = [f"[mcp_servers.{NAME}]", f"url = {json.dumps(url)}"]
    lines += [f'http_headers = {{ Authorization = "Bearer {key}" }}'] if key else []
    yield Snippet("codex", "Codex", "Into ~/.codex/config.toml.", "\n".join(lines))
    gemini = Client("Gemini CLI", Path.home, "settings.json", address="httpUrl")
    entry = {gemini.key: {NAME: address_entry(gemini, url, key)}}
    yield Snippet(
        "gemini", gemini.title, "Into ~/.gemini/settings.json.", json.dumps(entry, indent=2)
    )
    message = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/list"})
    headers = ["Content-Type: application/json", "Accept: application/json, text/event-stream"]
    headers += [f"Authorization: Bearer {key}"] if key else []
    words = ["curl", "-s", url, *(word for h in headers for word in ("-H", h)), "-d", message]
    yield Snippet("curl", "curl", "Lists the tools.", shlex.join(words))
