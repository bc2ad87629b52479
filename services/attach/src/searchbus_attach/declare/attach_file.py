"""The file of attached servers: `attach.toml`, or the JSON of a desktop host, which is only read.

[servers.files]
command = "npx"
args = ["-y", "@modelcontextprotocol/server-filesystem", "/srv"]

[servers.tracker]
url = "https://mcp.example.org/mcp"
headers = {Authorization = "Bearer ${TRACKER_TOKEN}"}

Views (views.py) are in tables of their own: [servers.NAME.view] and [views.NAME].
"""

from __future__ import annotations

import codecs
import hashlib
import re
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from searchbus_contracts.catalog import RESERVED_TOOLSETS
from searchbus_contracts.services import Service, toolset_owners
from searchbus_runtime.files import file_stamp, locked, write_atomically
from searchbus_runtime.wording import nearest

from ..errors import ServerDeclarationError
from .host_files import parse_host_file
from .servers import Server, parse_server
from .views import DeclaredView, Selection, parse_selection, parse_view, parse_view_text

FILE_NAME = "attach.toml"
PINS_NAME = "attach-pins.json"
_TABLE = "servers"
_VIEW = "view"
_SELECTIONS = "views"
_TABLES = (_TABLE, _SELECTIONS)


@dataclass(frozen=True, slots=True)
class Declared:
    """What a file declares, by name.

    Args:
        views: what is shown of servers.
        selections: tools across servers.
        faults: what is wrong with tables that are left out.
    """

    servers: Mapping[str, Server] = field(default_factory=dict)
    views: Mapping[str, DeclaredView] = field(default_factory=dict)
    selections: Mapping[str, Selection] = field(default_factory=dict)
    faults: Mapping[str, str] = field(default_factory=dict)


class AttachFile:
    """The file at a path, which may not exist yet; no server can have a reserved name (of a
    toolset)."""

    def __init__(self, path: Path, reserved: Iterable[str] = ()) -> None:
        self.path = path
        self._reserved = frozenset(reserved)

    @property
    def is_ours(self) -> bool:
        """Whether it is TOML; JSON belongs to the host that writes it."""
        return self.path.suffix != ".json"

    def stamp(self) -> tuple[int, ...] | None:
        """Changes with the file's content; None where there is no file. Raises OSError."""
        return file_stamp(self.path)

    def read_all(self, *, beside_faults: bool = False) -> Declared:
        """Everything that is declared, if there is a file; `beside_faults`: without wrong tables of
        servers. Raises DeclarationError that names the file."""
        try:
            text = read_text(self.path)
        except FileNotFoundError:
            return Declared()
        except OSError as error:
            raise ServerDeclarationError(f"{self.path} cannot be read: {error}") from None
        try:
            return self._parse(text, beside_faults=beside_faults)
        except ServerDeclarationError as fault:
            raise ServerDeclarationError(f"{self.path}: {fault}") from None

    def _parse(self, text: str, *, beside_faults: bool = False) -> Declared:
        """What a text declares, with all of its names checked. Raises DeclarationError."""
        if not self.is_ours:
            found = Declared(parse_host_file(text))
            self.check(found.servers.values())
        else:
            found = _parse_toml(text, self.check, beside_faults=beside_faults)
        for name in found.selections:
            if name in found.servers or name in self._reserved:
                raise ServerDeclarationError(
                    f"views.{name}: there is another toolset {name}; give one of them another name."
                )
        return found

    def check(self, servers: Iterable[Server]) -> None:
        """Raise DeclarationError for a reserved name."""
        for server in servers:
            if server.name in self._reserved:
                raise ServerDeclarationError(
                    f"{server.name} is a toolset of searchbus; give the server another name."
                )

    def add(self, servers: Iterable[Server], source: Path | None = None) -> list[str]:
        """Write servers into the file; comments and the other servers stay as they are.

        Args:
            source: the file that they are from, for messages.

        Returns:
            The names of those that were in the file already, with the same keys.

        Raises:
            DeclarationError: a name is reserved or that of another server, or the file cannot be
                used; nothing is written then.
            OSError: it cannot be written.
        """
        added, unchanged = list(servers), []
        from_file = f"{source}: " if source else ""
        try:
            self.check(added)
        except ServerDeclarationError as fault:
            raise ServerDeclarationError(f"{from_file}{fault}") from None
        with self._changing() as table:
            import tomlkit

            known = self.read_all().servers
            for server in added:
                if known.get(server.name) == server:
                    unchanged.append(server.name)
                    continue
                if server.name in table:
                    elsewhere = f", or give it another name in {source}" if source else ""
                    raise ServerDeclarationError(
                        f"{from_file}{server.name} is attached already in {self.path}, with other "
                        "keys; nothing was attached. Remove it first: searchbus attach remove "
                        f"{server.name}{elsewhere}"
                    )
                entry = tomlkit.table()
                for key, value in msgspec.to_builtins(server).items():
                    if key == "name":
                        continue
                    if isinstance(value, dict):
                        inline = tomlkit.inline_table()
                        inline.update(value)
                        value = inline
                    entry[key] = value
                table[server.name] = entry
        return unchanged

    def remove(self, name: str) -> None:
        """Remove a server.

        Raises:
            DeclarationError: the name is unknown, or the file cannot be used.
            OSError: it cannot be written.
        """
        with self._changing(beside_faults=True) as table:
            if name not in table:
                raise self._unknown(name, table)
            del table[name]

    def view_text(self, name: str) -> str:
        """The keys of a server's view, if any, as TOML with its comments; raises as `remove`."""
        known = self.read_all().servers
        if name not in known:
            raise self._unknown(name, known)
        if not self.is_ours:
            return ""
        import tomlkit

        return _view_text(name, tomlkit.parse(read_text(self.path))[_TABLE][name])

    def set_view(self, name: str, text: str, stamp: str) -> None:
        """Give a server another view (TOML; empty: none) in the place of the one with this
        `view_stamp`; comments of the file stay. Raises as `remove`, and for a wrong key or another
        view by now."""
        import tomlkit

        parse_view_text(name, text)
        with self._changing() as table:
            if name not in table:
                raise self._unknown(name, table)
            entry = table[name]
            if view_stamp(_view_text(name, entry)) != stamp:
                raise ServerDeclarationError(
                    f"{name}.view is another one by now. Read it again, and change that."
                )
            if _VIEW in entry:
                del entry[_VIEW]
            if tomllib.loads(text):
                view = tomlkit.table()
                for key, item in tomlkit.parse(text.rstrip() + "\n\n").body:
                    view.append(key, item)
                entry[_VIEW] = view

    def _unknown(self, name: str, known: Iterable[str]) -> ServerDeclarationError:
        return ServerDeclarationError(
            f"There is no server {name} in {self.path}.{nearest(name, known)}"
        )

    @contextmanager
    def _changing(self, *, beside_faults: bool = False) -> Iterator[Any]:
        """The table of servers; it is written, checked, when the block ends."""
        import tomlkit

        if not self.is_ours:
            raise ServerDeclarationError(
                f"{self.path} belongs to the host that writes it. Change it there, or use "
                "`searchbus attach import` and a file of TOML."
            )
        with locked(self.path):
            self.read_all(beside_faults=beside_faults)
            before = read_text(self.path) if self.path.exists() else ""
            document = tomlkit.parse(before)
            document.setdefault(_TABLE, tomlkit.table(is_super_table=True))
            yield document[_TABLE]
            text = tomlkit.dumps(document)
            self._parse(text, beside_faults=beside_faults)
            if text == before:
                return
            # Where the path is a link, the file that it names is replaced. Values of env and
            # headers may be secrets.
            write_atomically(self.path.resolve(), text, mode=0o600)


def view_stamp(text: str) -> str:
    """What names the text of a view."""
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _view_text(name: str, entry: Any) -> str:
    """The view of a server's table as a text of its own."""
    view = entry.get(_VIEW)
    if view is None:
        return ""
    keys = view.unwrap()
    # Its inner tables are named from the beginning of the file on.
    text = re.sub(rf"(?m)^\[{_TABLE}\.{name}\.{_VIEW}\.", "[", view.as_string()).strip("\n") + "\n"
    try:
        if tomllib.loads(text) == keys:
            return text
    except tomllib.TOMLDecodeError:
        pass  # it is written on one line, or in another way
    import tomlkit

    return tomlkit.dumps(keys)


def _parse_toml(
    text: str, check: Callable[[Iterable[Server]], None], *, beside_faults: bool
) -> Declared:
    try:
        content = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise ServerDeclarationError(f"it is not TOML: {error}") from None
    for key in content:
        if key not in _TABLES:
            raise ServerDeclarationError(f"there is no table {key!r}.{nearest(key, _TABLES)}")
    for kind in _TABLES:
        table = content.get(kind, {})
        if not isinstance(table, dict) or not all(isinstance(t, dict) for t in table.values()):
            raise ServerDeclarationError(f"{kind!r} must hold one table for each: [{kind}.NAME].")
    servers, views, faults = {}, {}, {}
    for name, keys in content.get(_TABLE, {}).items():
        own = {key: value for key, value in keys.items() if key != _VIEW}
        try:
            server = parse_server(name, own, apart=(_VIEW,))
            view = parse_view(name, keys.get(_VIEW, {}))
            check([server])
        except ServerDeclarationError as fault:
            if not beside_faults:
                raise
            faults[name] = str(fault)
            continue
        servers[name], views[name] = server, view
    tables = content.get(_SELECTIONS, {})
    selections = {name: parse_selection(name, keys) for name, keys in tables.items()}
    return Declared(servers, views, selections, faults)


def read_text(path: Path) -> str:
    """The text of a file: UTF-8, with or without a byte order mark, or UTF-16 with one.

    Raises:
        DeclarationError: it is none of these; the message names the file.
        OSError: it cannot be read.
    """
    with path.open("rb") as file:
        mark = file.read(2)
    is_wide = mark in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
    try:
        return path.read_text(encoding="utf-16" if is_wide else "utf-8-sig")
    except UnicodeError:
        raise ServerDeclarationError(
            f"{path} is not text in UTF-8: open it in an editor and save it as UTF-8."
        ) from None


def reserved_names(services: Mapping[str, Service]) -> frozenset[str]:
    """The toolsets that services declare, and those of the edge."""
    return frozenset({*toolset_owners(services), *RESERVED_TOOLSETS})
