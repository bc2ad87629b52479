"""`searchbus down`: end the stack of a data folder; with --purge, remove the folder as well."""

from __future__ import annotations

import os
import shutil
import signal
import sys
import time
from collections.abc import Iterable, Iterator
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Annotated

import typer

from searchbus_runtime import data_folder, read_state
from searchbus_runtime.client_entries import CLIENTS
from searchbus_runtime.state import LOCK_FILE, counts_clients, is_claimed

from .clients import FileChange, planned_removal, show, write
from .output import echo, fail

_LOOK_S = 0.1
OURS = (
    LOCK_FILE, "state.json", "clients", "searchbus.toml", "logs", "nats", "qdrant", "toolindex",
    "traces.*", "secure", "keys.json", "pins.json", "attach.toml", "attach-pins.json",
    "attach-logins.json", "attach-*.log*", "edge*.port", "edge.key", "stdio.log*", "stdio.lock",
    "fakes.json", "fomc-site", "sync", "dropped", "judgements", "console.html", ".reserve-*",
    ".*.lock", ".*.tmp",
)  # fmt: skip
"""Names of what searchbus writes into a data folder. Other files may be a person's own."""


def down(
    data: Annotated[Path | None, typer.Option(help="Data folder of the stack.")] = None,
    purge: Annotated[
        bool, typer.Option("--purge", help="Remove the data folder as well, after a question.")
    ] = False,
    clients: Annotated[
        bool, typer.Option("--clients", help="With --purge: remove the entries in clients, too.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
) -> None:
    """Stop the stack; with --purge, remove its data folder as well.

    Lists what --purge removes, and asks. Documents that were read stay where they are, and so does
    each file in the folder that searchbus did not write.

    Example: searchbus down --purge
    """
    folder = data_folder(data)
    if clients and not purge:
        raise fail("--clients belongs to --purge. Give both.", 2)
    planned = map(planned_removal, CLIENTS.values() if clients else ())
    changes = [change for change in planned if change.is_needed]
    if purge:
        _ask(folder, changes, yes=yes)
    by_client = counts_clients(folder)
    echo(f"stopped the stack on {folder}" if _stop(folder) else f"no stack is running on {folder}")
    if by_client:
        echo("A client had started it, and does so again. Close the client, or remove its entry.")
    # The clients first: one that runs would start the stack again.
    for change in changes:
        write(change)
    if purge:
        _remove(folder)


def _stop(folder: Path) -> bool:
    """End the stack; whether there was one. Raises typer.Exit where it does not end."""
    state = read_state(folder)
    # A file that a stack left behind says nothing: a stack that runs holds its lock.
    if not is_claimed(folder):
        return False
    if state is None:
        raise fail(
            f"A stack starts or stops on {folder}, or runs in a container. Try again in a moment, "
            "or stop the container."
        )
    try:
        os.kill(state.pid, signal.SIGTERM)
    except ProcessLookupError:
        return True
    except PermissionError:
        raise fail(
            f"The stack on {folder} (process {state.pid}) belongs to another user, who can stop it."
        ) from None
    latest = time.monotonic() + state.stop_s
    while is_claimed(folder):
        if time.monotonic() > latest:
            raise fail(
                f"Process {state.pid} did not end within {state.stop_s:.0f} s. See "
                f"{folder / 'logs'}, or end it at once: kill -9 {state.pid}"
            )
        time.sleep(_LOOK_S)
    return True


def _ours(folder: Path) -> Iterator[Path]:
    """What searchbus wrote into a folder. Raises typer.Exit where it is not a data folder."""
    if not (folder / LOCK_FILE).is_file():
        raise fail(
            f"{folder} is not a data folder of searchbus: no stack has run there. Nothing is "
            "removed. Name the folder with --data."
        )
    for path in folder.iterdir():
        if any(fnmatchcase(path.name, pattern) for pattern in OURS):
            yield path


def _ask(folder: Path, changes: list[FileChange], *, yes: bool) -> None:
    """Show what is removed, and ask. Raises typer.Exit or typer.Abort."""
    removed = sorted(_ours(folder))
    echo(f"{folder}: the passages of all collections, settings, keys and logs")
    for path in removed:
        echo(f"  {path.name}  {_size(path)}")
    for name in _left(folder, removed):
        echo(f"  {name} stays: searchbus did not write it")
    for change in changes:
        show(change)
    if yes:
        return
    if not sys.stdin.isatty():
        raise fail("Nothing is removed: there is no terminal to ask on. Give --yes.", 2)
    typer.confirm("Remove this?", abort=True)


def _left(folder: Path, removed: list[Path]) -> list[str]:
    return sorted({path.name for path in folder.iterdir()} - {path.name for path in removed})


def _size(path: Path) -> str:
    """The size of a file, or of all files of a folder; links are not followed."""
    paths: Iterable[Path] = [path]
    if path.is_dir() and not path.is_symlink():
        paths = (Path(inner, name) for inner, _, names in os.walk(path) for name in names)
    size = float(sum(map(_bytes, paths)))
    for unit in ("B", "KB", "MB"):
        if size < 1000:
            return f"{size:.0f} {unit}"
        size /= 1000
    return f"{size:.1f} GB"


def _bytes(path: Path) -> int:
    """The size of a file; 0 where a stack that runs has just removed it."""
    try:
        return path.lstat().st_size
    except FileNotFoundError:
        return 0


def _remove(folder: Path) -> None:
    """Remove what is searchbus's, the lock last, and the folder where nothing is left in it."""
    from .errors import AlreadyRunningError
    from .stack_folder import claim_folder  # here: stopping does not need it

    try:
        lock = claim_folder(folder)
    except AlreadyRunningError as error:
        raise fail(f"{error} Nothing is removed.") from None
    with lock:
        for path in sorted(_ours(folder), key=lambda path: path.name == LOCK_FILE):
            try:
                if path.is_dir() and not path.is_symlink():
                    shutil.rmtree(path)
                else:
                    path.unlink(missing_ok=True)
            except OSError as error:
                raise fail(f"{error.filename} cannot be removed ({error.strerror}).") from None
    if left := _left(folder, []):
        echo(f"removed; {folder} still has {', '.join(left)}")
        return
    folder.rmdir()
    echo(f"removed {folder}")
