"""The configuration file `searchbus.toml`: where it is, and what it says on which line.

The file is the one of SEARCHBUS_CONFIG, or `searchbus.toml` in the data folder; docs/settings.md
has its form and the precedence of settings. Relative paths start at the folder of the file. This
module needs no pydantic.
"""

from __future__ import annotations

import json
import os
import re
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from textwrap import wrap
from typing import Any

from .files import expanded
from .setting_list import PREFIX, SHARED, Setting, Settings, listed_settings
from .wording import CommandError, printable

CONFIG = f"{PREFIX}CONFIG"
"""Environment variable: the configuration file."""
FILE_NAME = "searchbus.toml"
MAX_BYTES = 1024 * 1024
EXIT_BAD_SETTINGS = 2
_NAME = r"""(?:[A-Za-z0-9_-]+|"[^"\\]*"|'[^']*')"""
_NAMES = rf"{_NAME}(?:[ \t]*\.[ \t]*{_NAME})*"
_TABLE = re.compile(rf"[ \t]*\[[ \t]*({_NAMES})[ \t]*\]")
_KEY = re.compile(rf"[ \t]*({_NAMES})[ \t]*=(.*)")
_POSITION = re.compile(r" \(at (?:line (\d+), column (\d+)|end of document)\)$")


class WrongSettingsError(CommandError):
    """Settings that cannot be used; each line says where a fault is, what it is, what to do."""

    def __init__(self, *faults: str) -> None:
        # Names in a file may hold line feeds and what a terminal obeys.
        shown = (printable(fault, one_line=True) for fault in faults)
        super().__init__(*shown, code=EXIT_BAD_SETTINGS)


@dataclass(frozen=True)
class ConfigFile:
    """A configuration file that was read; `is_public`: every user of the machine may read it."""

    path: Path
    content: Mapping[str, Any] = field(repr=False)
    text: str = field(default="", repr=False)
    is_public: bool = False

    def values(self, service: str, settings: Settings) -> dict[str, Any]:
        """Name → value of what it sets for a service (SHARED: for all), paths made absolute.
        Raises WrongSettingsError (a home folder that is not there)."""
        return {way[-1]: value for way, value in self._entries(service, settings)}

    def place(self, service: str, name: str) -> str:
        """Where it sets a setting for a service: file and line."""
        own = (service, name) if service and name in self.table(service) else (name,)
        return self.at(*own)

    def at(self, *way: str) -> str:
        """The place of an entry: file and line, where its line was found."""
        line = self._lines.get(way)
        return f"{self.path}:{line}" if line else str(self.path)

    def table(self, service: str) -> Mapping[str, Any]:
        """What it sets for a service alone."""
        table = self.content.get(service)
        return table if isinstance(table, dict) else {}

    def _entries(self, service: str, settings: Settings) -> Iterator[tuple[tuple[str, ...], Any]]:
        known = {name: one for table in settings.values() for name, one in table.items()}
        for name, value in self.content.items():
            if not (isinstance(value, dict) and name in settings):
                yield (name,), self._absolute((name,), value, known.get(name))
        if service:
            for name, value in self.table(service).items():
                way = (service, name)
                yield way, self._absolute(way, value, known.get(name))

    def data_folder(self) -> Path | None:
        """The data folder that it names; raises WrongSettingsError, as `values`."""
        setting = Setting(name="data_dir", kind="path")
        value = self._absolute(("data_dir",), self.content.get("data_dir"), setting)
        return Path(value) if isinstance(value, str) and value else None

    def _absolute(self, way: tuple[str, ...], value: Any, setting: Setting | None) -> Any:
        if setting is None:
            return value
        if setting.kind == "path" and isinstance(value, str) and value:
            return self._path(way, value)
        if setting.kind == "table of paths" and isinstance(value, dict):
            return {
                name: self._path(way, path) if isinstance(path, str) else path
                for name, path in value.items()
            }
        return value

    def _path(self, way: tuple[str, ...], path: str) -> str:
        try:
            return str(self.path.parent / expanded(path))
        except FileNotFoundError as error:
            raise WrongSettingsError(
                f"{self.at(*way)}: {path}: {error.strerror}. Write the whole path."
            ) from None

    @cached_property
    def _lines(self) -> dict[tuple[str, ...], int]:
        return {way: number for number, way in reversed([*entry_lines(self.text)])}


def entry_lines(text: str) -> Iterator[tuple[int, tuple[str, ...]]]:
    """Line, and names of table and key, of each entry of a TOML text."""
    table: tuple[str, ...] = ()
    until = ""  # the quotes that end a text of several lines
    for number, line in enumerate(text.splitlines(), 1):
        if until:
            if until in line:
                until = ""
        elif match := _TABLE.match(line):
            table = _split(match[1])
            yield number, table
        elif match := _KEY.match(line):
            yield number, (*table, *_split(match[1]))
            quotes = match[2].lstrip()[:3]
            if quotes in ('"""', "'''") and quotes not in match[2].lstrip()[3:]:
                until = quotes


def _split(names: str) -> tuple[str, ...]:
    return tuple(name.strip("\"'") for name in re.findall(_NAME, names))


def named_config() -> Path | None:
    """The configuration file that SEARCHBUS_CONFIG names."""
    named = os.environ.get(CONFIG)
    return Path(named).absolute() if named else None


def use_config(path: Path | None) -> None:
    """Use a file in this process and those it starts (`--config`); raises WrongSettingsError."""
    if path is not None:
        read_config_file(path)
        os.environ[CONFIG] = str(path.absolute())


def find_config(folder: Path) -> ConfigFile | None:
    """The configuration file of a data folder, if there is one; raises WrongSettingsError."""
    path = named_config()
    if path is None:
        path = folder / FILE_NAME
        # One that is there and cannot be read is refused.
        if not os.path.lexists(path):
            return None
    return read_config_file(path)


def read_config_file(path: Path) -> ConfigFile:
    """Read a configuration file; raises WrongSettingsError (unreadable, or not TOML)."""
    # Imported here: most starts have no such file.
    import tomllib

    data, mode = _read(path)
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise WrongSettingsError(f"{path}:{line}: not UTF-8. Save the file as UTF-8.") from None
    try:
        content = tomllib.loads(text.removeprefix("\ufeff"))
    except tomllib.TOMLDecodeError as error:
        raise WrongSettingsError(_syntax_fault(path, str(error), text)) from None
    except (ValueError, RecursionError):  # a number of thousands of digits, or thousands of [
        raise WrongSettingsError(
            f"{path}: a value is too long or nested too deeply. Shorten it."
        ) from None
    return ConfigFile(path, content, text, is_public=bool(mode & stat.S_IROTH))


def _syntax_fault(path: Path, message: str, text: str) -> str:
    found = _POSITION.search(message)
    line, column = (found[1], found[2]) if found else (None, None)
    if line is None:
        line, column = str(max(1, len(text.splitlines()))), "end"
    what = _POSITION.sub("", message)
    if "overwrite" in what or "twice" in what:
        return f"{path}:{line}: this key or table is set twice. Remove one of them."
    return f"{path}:{line}: not TOML, column {column}: {what}. Write name = value, texts in quotes."


def _read(path: Path) -> tuple[bytes, int]:
    remedy = f"Correct the path in --config or {CONFIG}"
    try:
        # Not blocking: a named pipe without a writer would wait for ever.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        raise WrongSettingsError(
            f"{path}: there is no such file. {remedy}, or write one: searchbus config init"
        ) from None
    except (OSError, ValueError) as error:  # a path with a null byte
        reason = getattr(error, "strerror", None) or "an invalid path"
        raise WrongSettingsError(
            f"{path}: cannot be read ({reason}). Make it readable for this user: chmod u+r {path}"
        ) from None
    mode = os.fstat(descriptor).st_mode
    if not stat.S_ISREG(mode):
        os.close(descriptor)
        kind = "a folder, not a file" if stat.S_ISDIR(mode) else "not a regular file"
        raise WrongSettingsError(f"{path}: {kind}. {remedy}")
    with os.fdopen(descriptor, "rb") as file:
        data = file.read(MAX_BYTES + 1)
    if len(data) > MAX_BYTES:
        raise WrongSettingsError(
            f"{path}: larger than {MAX_BYTES // 1024} KiB, so not a file of settings. {remedy}"
        )
    return data, mode


MODE = 0o600
"""Permissions of the file: it may hold secrets."""
_HEAD = """\
# The settings of searchbus. Every line that begins with # has no effect; a line `# name = value`
# shows a default. Environment variables (SEARCHBUS_<NAME>) come before this file, options of the
# command line before both. `searchbus config show` prints what is in force and where it is set,
# `searchbus config check` what is wrong. An empty text ("") sets nothing.

# ---- For every service. A service's own table, below, comes before. ----
"""
_WIDTH = 96


def config_text(settings: Settings | None = None) -> str:
    """A configuration file with each setting of our services as a comment with its default."""
    lines = [_HEAD]
    for service, table in (settings or listed_settings()).items():
        if service != SHARED:
            lines += [f"[{service}]", ""]
        for setting in table.values():
            lines += [*_comment(setting), ""]
    return "\n".join(lines)


def _comment(setting: Setting) -> Iterator[str]:
    facts = (setting.kind, setting.unit, setting.range, "a secret" if setting.secret else "")
    about = f"{setting.description} ({', '.join(filter(None, facts))})"
    for line in wrap(about, _WIDTH, break_long_words=False, break_on_hyphens=False):
        yield f"# {line}"
    default = '""  # not set' if setting.default is None else toml(setting.default)
    yield f"# {setting.name} = {default}"


def toml(value: Any) -> str:
    """A value in TOML, on one line."""
    if isinstance(value, bool | str):
        # JSON's escapes are TOML's, but for one character.
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, Mapping):
        entries = ", ".join(f"{toml(str(name))} = {toml(inner)}" for name, inner in value.items())
        return "{" + entries + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(toml, value)) + "]"
    return repr(value)
