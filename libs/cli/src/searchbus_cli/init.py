"""`searchbus init`: four questions, then the configuration and the entries in clients.

Nothing is written before the last question is answered.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, MutableMapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Annotated

import typer

from searchbus_runtime import read_state
from searchbus_runtime.client_entries import CLIENTS, start_command
from searchbus_runtime.config_file import (
    FILE_NAME,
    MODE,
    WrongSettingsError,
    config_text,
    find_config,
    named_config,
    read_config_file,
    use_config,
)
from searchbus_runtime.files import expanded, write_atomically
from searchbus_runtime.python import python
from searchbus_runtime.setting_list import listed_settings
from searchbus_runtime.state import is_claimed, open_data_folder
from searchbus_runtime.wording import nearest

from .clients import FileChange, other_servers, write
from .config import Config
from .connect import command_changes, named_client, show_change
from .output import echo, fail, tell

COLLECTION = "docs"
_KEYS = "_api_keys"
_START_S = 600.0
_LOOK_S = 0.2
_SELF = python("-m", "searchbus_cli")
_NOTHING_THERE = "there is no such file or folder that you may read. Correct the path."


@dataclass
class Plan:
    """What is written after the answers: provider → key, and the clients' files whose servers are
    attached."""

    documents: Path | None = None
    keys: dict[str, str] = field(default_factory=dict)
    imported: list[Path] = field(default_factory=list)
    changes: list[FileChange] = field(default_factory=list)


def init(
    documents: Annotated[
        Path | None, typer.Option(help="Folder of documents; becomes the collection docs.")
    ] = None,
    web_key: Annotated[
        str | None,
        typer.Option(help="Web search provider whose key is read from standard input."),
    ] = None,
    attach: Annotated[
        bool | None,
        typer.Option("--attach/--no-attach", help="Attach the servers that clients here have."),
    ] = None,
    client: Annotated[
        list[str] | None,
        typer.Option(help=f"Client that uses searchbus: {', '.join(CLIENTS)}; may be repeated."),
    ] = None,
    data: Annotated[Path | None, typer.Option(help="Data folder of the stack.")] = None,
    config: Config = None,
    yes: Annotated[
        bool, typer.Option("--yes", "-y", help="Ask nothing; what is not given is left out.")
    ] = False,
) -> None:
    """Set up documents, web search and clients, by four questions.

    Shows what it writes before it does. A client's file is kept beside the new one.

    Example: searchbus init --yes --client cursor --documents ./handbook
    """
    asks = not yes
    if asks and not sys.stdin.isatty():
        raise fail(
            "There is no terminal to ask on. Say what to set up, and --yes: searchbus init --yes "
            "--client cursor --documents ./handbook",
            2,
        )
    if yes and documents is None and web_key is None and not attach and not client:
        raise fail("--yes alone sets nothing up. Give --client, --documents or another.", 2)
    use_config(config)
    folder = open_data_folder(data)
    # A file that cannot be read is an error before the first question.
    find_config(folder)
    plan = Plan()
    plan.documents = _documents(documents, asks=asks)
    plan.keys = _web_key(web_key, asks=asks)
    plan.imported = _imported(attach, asks=asks)
    plan.changes = _changes(client, start_command(folder, named_config()), asks=asks)
    _show(plan, folder)
    if asks:
        typer.confirm("Write this?", default=True, abort=True)
    _carry_out(plan, folder)


def _documents(given: Path | None, *, asks: bool) -> Path | None:
    if given is not None and not os.access(given, os.R_OK):
        raise fail(f"--documents {given}: {_NOTHING_THERE}", 2)
    if given is not None or not asks:
        return given.resolve() if given is not None else None
    while True:
        answer = typer.prompt("1. Folder of documents to search (empty: none)", "", False)
        if not (answer := answer.strip()):
            return None
        with suppress(FileNotFoundError):
            if os.access(path := expanded(answer), os.R_OK):
                return path.resolve()
        echo(f"   {answer}: {_NOTHING_THERE}")


def _web_key(given: str | None, *, asks: bool) -> dict[str, str]:
    providers = [name.removesuffix(_KEYS) for name in listed_settings()["web"] if _KEYS in name]
    if given is not None and given not in providers:
        raise fail(f"--web-key {given}: no provider with a key.{nearest(given, providers)}", 2)
    if given is None and asks:
        question = f"2. Provider of web search: {', '.join(providers)} (empty: none with a key)"
        while given is None:
            given = typer.prompt(question, "", False).strip().lower()
            if given not in (*providers, ""):
                echo(f"   {given} is not one of them.")
                given = None
    if not given:
        return {}
    if sys.stdin.isatty():
        key = typer.prompt(f"   Key of {given}", hide_input=True)
    else:
        key = sys.stdin.readline()
    key = key.strip()
    if not (key and key.isascii() and key.isprintable()):
        raise fail(f"The key of {given} is empty, or has characters that no key has.", 2)
    return {given: key}


def _imported(wanted: bool | None, *, asks: bool) -> list[Path]:
    """The files whose servers are attached."""
    if wanted is False or (wanted is None and not asks):
        return []
    found = {}
    for client in CLIENTS.values():
        if names := other_servers(client):
            found[client.path] = f"{client.title}: {', '.join(names)}"
    if not found:
        echo("3. No client here has servers that could be attached.")
    elif wanted is None:
        echo("3. Servers of clients on this machine:")
        for line in found.values():
            echo(f"   {line}")
        if not typer.confirm("   Attach them, so that every client has them by searchbus?"):
            return []
    return list(found)


def _changes(given: list[str] | None, command: Sequence[str], *, asks: bool) -> list[FileChange]:
    """The changes in the files of the chosen clients."""
    names = given or []
    if given is None and asks:
        used = " ".join(name for name, client in CLIENTS.items() if client.is_used)
        question = f"4. Clients that use searchbus, of {', '.join(CLIENTS)} (-: none)"
        while not names:
            names = typer.prompt(question, used or "-").replace(",", " ").split()
            if unknown := [name for name in names if name not in (*CLIENTS, "-")]:
                echo(f"   {unknown[0]} is not one of them.{nearest(unknown[0], [*CLIENTS])}")
                names = []
        names = [name for name in names if name != "-"]
    clients = [named_client(name, "--client ") for name in dict.fromkeys(names)]
    return command_changes(clients, command)


def _config(folder: Path) -> Path:
    return named_config() or folder / FILE_NAME


def _show(plan: Plan, folder: Path) -> None:
    for provider in plan.keys:
        echo(f"{_config(folder)}: {provider}{_KEYS} = (the key), readable by you alone")
    for path in plan.imported:
        echo(f"{folder / 'attach.toml'}: the servers of {path}")
    for change in plan.changes:
        show_change(change)
    if plan.documents is not None:
        echo(f"{plan.documents}: is read into the collection {COLLECTION}")


def _carry_out(plan: Plan, folder: Path) -> None:
    """Write everything; what fails is named, and the rest is done."""
    failed = []
    if plan.keys:
        path = _config(folder)
        try:
            _write_keys(path, plan.keys)
        except OSError as error:
            raise fail(f"{path} cannot be written ({error.strerror}).") from None
        echo(f"wrote {path}" + (": restart the stack" if read_state(folder) else ""))
    for path in plan.imported:
        if _run(folder, "attach", "import", str(path), "--yes"):
            failed.append(f"searchbus attach import {path}")
    for change in plan.changes:
        if change.is_needed:
            write(change)
    if plan.documents is not None and _ingest(plan.documents, folder):
        failed.append(f"searchbus ingest {plan.documents} --collection {COLLECTION}")
    if failed:
        raise fail(f"Not done. Run again what failed: {'; '.join(failed)}")
    if plan.changes:
        echo("Start the clients again: they start searchbus when they need it.")
    echo("searchbus up starts it for this terminal, and says what to do next.")


def _write_keys(path: Path, keys: Mapping[str, str]) -> None:
    """Set provider → key in a configuration file, which only its owner can read; all else is kept.
    Raises OSError, WrongSettingsError."""
    # Imported here: the questions do not need it.
    import tomlkit

    exists = os.path.lexists(path)
    # A file of another program of configuration may be linked here: the link stays.
    path = path.resolve()
    text = read_config_file(path).text.removeprefix("\ufeff") if exists else config_text()
    document = tomlkit.parse(text)
    table = document.setdefault("web", tomlkit.table())
    if not isinstance(table, MutableMapping):
        raise WrongSettingsError(f"{path}: web is a service. Write a table: [web]")
    for provider, key in keys.items():
        table[f"{provider}{_KEYS}"] = [key]
    write_atomically(path, tomlkit.dumps(document), mode=MODE)


def _run(folder: Path, *arguments: str) -> int:
    """Run another command of searchbus; returns its exit code."""
    return subprocess.run([*_SELF, *arguments, "--data", str(folder)], check=False).returncode


def _ingest(documents: Path, folder: Path) -> int:
    """Read documents into the collection, by the stack that runs, or by one for that time."""
    with _stack(folder):
        return _run(folder, "ingest", str(documents), "--collection", COLLECTION)


@contextmanager
def _stack(folder: Path) -> Iterator[None]:
    if is_claimed(folder):
        yield
        return
    tell("starting searchbus to read the documents …")
    with tempfile.TemporaryFile() as log:
        process = subprocess.Popen(
            [*_SELF, "up", "--port", "0", "--data", str(folder)],
            stdin=subprocess.DEVNULL, stdout=log, stderr=log,
        )  # fmt: skip
        try:
            _wait(folder, process, log)
            yield
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait()


def _wait(folder: Path, process: subprocess.Popen[bytes], log: IO[bytes]) -> None:
    """Wait until the stack answers. Raises typer.Exit where it ends, with what it printed."""
    latest = time.monotonic() + _START_S
    while (state := read_state(folder)) is None or state.pid != process.pid:
        if process.poll() is not None or time.monotonic() > latest:
            log.seek(0)
            tell(log.read().decode(errors="replace").rstrip())
            raise fail("searchbus does not start, so no documents were read. Run: searchbus up")
        time.sleep(_LOOK_S)
