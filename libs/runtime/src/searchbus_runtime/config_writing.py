"""Writes the configuration file: every setting with its description, or changes in one that exists.

write_config(folder / "searchbus.toml", {"log_level": "debug", "web": {"brave_api_keys": ["…"]}})
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from textwrap import wrap
from typing import Any

from .config_file import WrongSettingsError, entry_lines, read_config_file
from .files import write_atomically
from .setting_list import SHARED, Setting, Settings, listed_settings

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


def write_config(path: Path, values: Mapping[str, Any]) -> None:
    """Set settings in a configuration file, which only its owner can read; all else is kept.

    A file that does not exist is written with the description and default of every setting. In one
    that does, comments, order and other settings stay.

    Args:
        path: its folder must exist.
        values: as in the file: name → value, and service → table of them. An entry of several lines
            cannot be changed.

    Raises:
        WrongSettingsError: the file cannot be read, or not be changed without harm.
        OSError: it cannot be written; the old one is still there.
    """
    if os.path.lexists(path):
        # A file of another program of configuration may be linked here: the link stays.
        path = path.resolve()
        text = read_config_file(path).text
    else:
        text = config_text()
    for name, value in values.items():
        if isinstance(value, dict) and name in listed_settings():
            for inner, given in value.items():
                text = _changed(path, text, (name, inner), given)
        else:
            text = _changed(path, text, (name,), value)
    write_atomically(path, text, mode=MODE)


def config_text(settings: Settings | None = None) -> str:
    """A configuration file in which every setting (of our services) is a comment that shows its
    default."""
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


def _changed(path: Path, text: str, way: tuple[str, ...], value: Any) -> str:
    """The text with one setting changed."""
    # Imported here: reading settings does not need it.
    import tomllib

    *table, name = way
    entry = f"{name} = {toml(value)}"
    changed = "\n".join(_with_entry(text, way, entry)) + "\n"
    wanted = tomllib.loads(text)
    (wanted.setdefault(table[0], {}) if table else wanted)[name] = tomllib.loads(entry)[name]
    try:
        is_harmless = tomllib.loads(changed) == wanted
    except tomllib.TOMLDecodeError:
        is_harmless = False
    if not is_harmless:
        setting = listed_settings()[table[0] if table else SHARED].get(name)
        shown = f"{name} = …" if setting is None or setting.secret else entry
        raise WrongSettingsError(
            f"{path}: {'.'.join(way)} cannot be changed without harm to other lines. Change it by "
            f"hand: {shown}"
        )
    return changed


def _with_entry(text: str, way: tuple[str, ...], entry: str) -> list[str]:
    """The lines with one of them set: that of the setting, its comment, or a new one."""
    lines, places = text.splitlines(), list(entry_lines(text))
    for number, found, is_table in places:
        if found == way and not is_table:
            return [*lines[: number - 1], entry, *lines[number:]]
    *table, name = way
    start = next((n for n, found, is_table in places if is_table and [*found] == table), 0)
    if table and not start:
        return [*lines, "", f"[{table[0]}]", entry]
    later = (n for n, _, is_table in places if is_table and n > start)
    end = next(later, len(lines) + 1) - 1
    for number in range(start, end):
        if re.match(rf"#\s*{re.escape(name)}\s*=", lines[number]):
            return [*lines[:number], entry, *lines[number + 1 :]]
    place = start if table else end
    return [*lines[:place], entry, *([""] if place == end else []), *lines[place:]]
