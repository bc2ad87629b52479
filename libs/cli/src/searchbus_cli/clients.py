"""The clients on this machine that start commands, and searchbus's entry in their settings.

client = CLIENTS["cursor"]
change = planned_entry(client, command_entry(client, start_command(folder)))
change.diff()       # the lines that differ, for a person to read
change.write()      # a backup beside the file, then the file in one step
"""

from __future__ import annotations

import difflib
import json
import os
import re
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path, PurePath
from typing import Any

from rich.text import Text

from searchbus_runtime.client_entries import NAME, Client
from searchbus_runtime.files import write_atomically
from searchbus_runtime.jsonc import JsonTextError, parse, with_member, without_member
from searchbus_runtime.wording import CommandError

from .output import echo, out

_PRIVATE = 0o600
_MOST_BACKUPS = 1_000
_TEXT = re.compile(r'"(?:[^"\\]|\\.)*+"(?=(\s*:)?)')
"""A text of JSON; the group says that it is a name."""


class ClientFileError(CommandError):
    """A client's file that cannot be read or changed; the message names it and says what to do."""


@dataclass(frozen=True, slots=True)
class FileChange:
    """A change of a file that is not made yet.

    Args:
        before: the content as it was read; None where there is no file.
        after: the same object where nothing changes.
        texts: what the diff shows; other texts may be keys of other servers.
    """

    path: Path
    before: bytes | None
    after: bytes | None
    texts: frozenset[str] = frozenset()

    @property
    def is_needed(self) -> bool:
        """Whether anything differs."""
        return self.before != self.after

    def diff(self) -> Iterator[str]:
        """The lines that differ, without texts of other servers: they may hold keys."""
        before, after = ((text or b"").decode().splitlines() for text in (self.before, self.after))
        name = str(self.path)
        for line in difflib.unified_diff(before, after, name, name, n=0, lineterm=""):
            yield _TEXT.sub(self._shown, line) if line[:3] not in ("---", "+++") else line

    def _shown(self, found: re.Match[str]) -> str:
        return found[0] if found[1] or found[0] in self.texts else '"…"'

    def write(self) -> Path | None:
        """Change the file; returns the backup of what was there. Raises ClientFileError, also where
        it changed meanwhile."""
        # A link of a person who keeps all settings in one folder stays one.
        target = Path(os.path.realpath(self.path))
        after = self.after or b""
        try:
            if _content(self.path) != self.before:
                raise ClientFileError(f"{self.path} has changed meanwhile. Run this again.")
            if self.before is None:
                target.parent.mkdir(parents=True, exist_ok=True)
                write_atomically(target, after, mode=_PRIVATE)
                return None
            if not os.access(target, os.W_OK):
                raise ClientFileError(f"{self.path} is read-only. Allow writing, and run again.")
            backup = _backup(target)
            write_atomically(target, after, mode=target.stat().st_mode & 0o777)
        except OSError as error:
            raise ClientFileError(
                f"{error.filename or self.path} cannot be written ({error.strerror})."
            ) from None
        return backup


def planned_entry(client: Client, entry: dict[str, Any]) -> FileChange:
    """The entry that leads to searchbus: a new one, or the present one with it.

    Raises:
        ClientFileError: the file is not JSON, or not that of such a client.
    """

    def change(text: str) -> str:
        for name, present in _entries(client, text):
            wanted = _with(present, entry, client)
            return text if wanted == present else with_member(text, (client.key, name), wanted)
        return with_member(text, (client.key, NAME), entry)

    shown = (*entry.get("args", ()), *(v for v in entry.values() if isinstance(v, str)))
    texts = frozenset(json.dumps(text, ensure_ascii=False) for text in shown)
    return replace(_planned(client, change), texts=texts)


def _with(present: dict[str, Any], entry: dict[str, Any], client: Client) -> dict[str, Any]:
    """A present entry that leads to searchbus as `entry` does.

    Its other keys are a person's own, e.g. `env`, and headers that we do not set.
    """
    other = {"url", "headers"} if "command" in entry else {"command", "args"}
    kept = {k: v for k, v in present.items() if k not in {*other, client.address, "type"}}
    found = {**kept, **entry}
    if "headers" not in other and isinstance(present.get("headers"), dict):
        found["headers"] = {**present["headers"], **entry.get("headers", {})}
    return found


def written_entry(client: Client) -> dict[str, Any]:
    """The entry of searchbus as the client reads it now; raises as `planned_entry`, or where it is
    missing."""
    with _read(client) as (_, _, text):
        for _, entry in _entries(client, text):
            return entry
    raise ClientFileError(f"{client.path} has no entry of searchbus any more. Run this again.")


def planned_removal(client: Client) -> FileChange:
    """The client's settings without the entries that start searchbus; raises as `planned_entry`."""

    def change(text: str) -> str:
        for name, _ in _entries(client, text):
            text = without_member(text, (client.key, name))
        return text

    return _planned(client, change)


def other_servers(client: Client) -> list[str]:
    """Names of a client's servers, without searchbus itself; raises as `planned_entry`."""
    with _read(client) as (_, _, text):
        own = {name for name, _ in _entries(client, text)}
        return [name for name in _servers(client, text) if name not in own]


def _entries(client: Client, text: str) -> list[tuple[str, dict[str, Any]]]:
    """The entries that start searchbus, under any name, or have its name."""
    return [
        (name, entry)
        for name, entry in _servers(client, text).items()
        if isinstance(entry, dict) and (name == NAME or _starts_searchbus(entry))
    ]


def _servers(client: Client, text: str) -> dict[str, Any]:
    content = parse(text)
    servers = content.get(client.key) if isinstance(content, dict) else None
    return servers if isinstance(servers, dict) else {}


def _starts_searchbus(entry: Mapping[str, Any]) -> bool:
    command, arguments = entry.get("command"), entry.get("args")
    return (
        isinstance(command, str)
        and PurePath(command).name == NAME
        and isinstance(arguments, list)
        and arguments[:1] == ["stdio"]
    )


def _planned(client: Client, change: Callable[[str], str]) -> FileChange:
    with _read(client) as (before, mark, text):
        after = change(text)
    return FileChange(client.path, before, before if after == text else (mark + after).encode())


@contextmanager
def _read(client: Client) -> Iterator[tuple[bytes | None, str, str]]:
    """The content of a client's file, its byte order mark, and its text, which the block may parse;
    raises ClientFileError for what is wrong with it."""
    path = client.path
    try:
        before = _content(path)
        # A signature of Windows's editors stays where it is.
        text = (before or b"").decode("utf-8")
        mark = "\ufeff" if text.startswith("\ufeff") else ""
        text = text.removeprefix(mark)
        yield before, mark, text if text.strip() else "{}\n"
    except OSError as error:
        raise ClientFileError(f"{path} cannot be read ({error.strerror}).") from None
    except UnicodeDecodeError:
        raise ClientFileError(f"{path} is not UTF-8. Save it as UTF-8, and run again.") from None
    except JsonTextError as error:
        raise ClientFileError(
            f"{path}: {error}. Mend it, or add the entry by hand; nothing is written."
        ) from None


def _content(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None


def _backup(path: Path) -> Path:
    """Copy a file beside itself, under a name that is free."""
    for number in range(_MOST_BACKUPS):
        backup = path.with_name(f"{path.name}.bak{number or ''}")
        try:
            descriptor = os.open(backup, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _PRIVATE)
        except FileExistsError:
            continue
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(path.read_bytes())
            shutil.copymode(path, backup)
        except OSError:
            backup.unlink(missing_ok=True)
            raise
        return backup
    raise ClientFileError(f"{path} has {_MOST_BACKUPS} backups beside it. Remove some of them.")


def show(change: FileChange) -> None:
    """Print the lines that a change takes away and adds, in red and green."""
    for line in change.diff():
        sign = line[:1]
        style = {"-": "red", "+": "green"}.get(sign, "dim")
        out.print(Text(line, style=style), highlight=False, soft_wrap=True)


def write(change: FileChange) -> None:
    """Make a change and say so; raises ClientFileError."""
    backup = change.write()
    echo(f"wrote {change.path}" + (f" (as it was: {backup})" if backup is not None else ""))
