"""Faults of settings that need no settings class: unknown names, kinds of values, secrets."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from importlib import import_module
from itertools import islice
from pathlib import Path
from typing import Any

from .config_file import FILE_NAME, ConfigFile, WrongSettingsError
from .config_sources import DOTENV, Sources, secret_files
from .setting_list import OTHER_VARIABLES, PREFIX, SHARED, Setting, Settings
from .wording import without_credentials

_TYPES: dict[str, tuple[type, ...]] = {
    "true or false": (bool,), "whole number": (int,), "number": (int, float), "text": (str,),
    "path": (str,), "list": (list,), "table": (dict,),
}  # fmt: skip
_EXAMPLES = {
    "true or false": "true", "whole number": "8", "number": "2.5", "text": '"…"', "path": '"…"',
    "list": '["…"]', "table": '{name = "…"}',
}  # fmt: skip
MOST_FAULTS = 20
"""The number of faults that are named at once."""
# What Kubernetes sets for a Service whose name begins with searchbus (enableServiceLinks).
_SERVICE_LINK = re.compile(
    rf"{PREFIX}\w+_(SERVICE_HOST|SERVICE_PORT(_\w+)?|PORT_\d+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)"
    rf"|{PREFIX}(SERVICE_HOST|SERVICE_PORT(_\w+)?|PORT_\d+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)"
)


def check_config(sources: Sources, folder: Path) -> Sources:
    """Refuse unknown names, values of another kind, and secrets that everybody can read; the
    sources, with the settings of installed services of others. Raises WrongSettingsError."""
    faults = _first(_faults(sources, folder))
    if faults and (others := other_settings(sources.settings)):
        sources = Sources(sources.service, sources.config, {**sources.settings, **others})
        faults = _first(_faults(sources, folder))
    if faults:
        raise WrongSettingsError(*faults)
    return sources


def _first(faults: Iterator[str]) -> list[str]:
    # To search the nearest names of a file of another kind would take minutes.
    found = list(islice(faults, MOST_FAULTS))
    if next(faults, None) is not None:
        found.append("There are more faults. Correct these first.")
    return found


def _faults(sources: Sources, folder: Path) -> Iterator[str]:
    known = {setting.variable for table in sources.settings.values() for setting in table.values()}
    yield from _variables(sources, known | OTHER_VARIABLES)
    if sources.config is not None:
        yield from _file(sources.config, sources.settings, folder)


def other_settings(settings: Settings) -> dict[str, dict[str, Setting]]:
    """Settings of other installed services, by their classes; raises WrongSettingsError."""
    # Imported here: a start without faults needs neither these nor pydantic, below.
    from importlib.metadata import entry_points

    from searchbus_contracts.services import ENTRY_POINT_GROUP

    found = {}
    for entry in entry_points(group=ENTRY_POINT_GROUP):
        if entry.name not in settings:
            from .setting_classes import describe

            try:
                module, _, name = entry.load().settings.partition(":")
                found[entry.name] = describe(getattr(import_module(module), name))
            except Exception as error:  # of a package that others wrote
                raise WrongSettingsError(
                    f"The settings of the service {entry.name} cannot be imported "
                    f"({type(error).__name__}: {error}). Install its package again."
                ) from None
    return found


def _variables(sources: Sources, known: Iterable[str]) -> Iterator[str]:
    known = set(known)
    first: dict[str, str] = {}
    for name, value in os.environ.items():
        variable = name.upper()
        if not variable.startswith(PREFIX) or _SERVICE_LINK.fullmatch(variable):
            continue
        if variable not in known:
            yield _unknown_variable(name, name, known)
        elif value and os.environ[first.setdefault(variable, name)] != value:
            yield f"{first[variable]} and {name} are both set, differently. Unset one of them."
        elif not value:
            first.pop(variable, None)
    for name in sources.dotenv:
        if name.upper().startswith(PREFIX) and name.upper() not in known:
            yield _unknown_variable(str(DOTENV), name, known)
    for path in secret_files():
        if path.name.upper().startswith(PREFIX) and path.name.upper() not in known:
            yield _unknown_variable(str(path), path.name, known)


def _unknown_variable(place: str, name: str, known: Iterable[str]) -> str:
    place = place if place == name else f"{place}: {name}"
    return f"{place}: there is no such setting. {_advice(name.upper(), known)}"


def _advice(name: str, known: Iterable[str]) -> str:
    # Imported here: only a fault needs it.
    from difflib import get_close_matches

    plain = name.replace("-", "_").lower()
    names = {one.lower(): one for one in known}
    for form in (plain, plain.removeprefix(PREFIX.lower())):
        if form in names:
            return f"Did you mean {names[form]}?"
    found = get_close_matches(plain, names, 1)
    return f"Did you mean {names[found[0]]}?" if found else "`searchbus config show` lists all."


def _file(config: ConfigFile, settings: Settings, folder: Path) -> Iterator[str]:
    everywhere = {name: one for table in settings.values() for name, one in table.items()}
    for name, value in config.content.items():
        if isinstance(value, dict) and name in settings:
            for inner, given in value.items():
                yield from _entry(config, settings, everywhere, (name, inner), given)
        elif name in settings and name not in everywhere:
            yield f"{config.at(name)}: {name} is a service. Write a table: [{name}]"
        elif isinstance(value, dict) and name not in everywhere:
            names = [*settings, *everywhere]
            yield f"{config.at(name)}: [{name}]: there is no such service. {_advice(name, names)}"
        else:
            yield from _entry(config, settings, everywhere, (name,), value)
    named = config.data_folder()
    if named is not None and config.path == folder / FILE_NAME and named.resolve() != folder:
        yield (
            f"{config.at('data_dir')}: data_dir names another folder than the one of this file. "
            "Name the folder with --data or SEARCHBUS_DATA_DIR."
        )


def _entry(
    config: ConfigFile,
    settings: Settings,
    everywhere: dict[str, Setting],
    way: tuple[str, ...],
    value: Any,
) -> Iterator[str]:
    *table, name = way
    place = f"{config.at(*way)}: {name}"
    known = {**settings[SHARED], **settings[table[0]]} if table else everywhere
    setting = known.get(name)
    if setting is None:
        owners = [service for service, found in settings.items() if service and name in found]
        if owners:
            yield f"{place}: a setting of {' and '.join(owners)}. Move it to [{owners[0]}]."
        else:
            yield f"{place}: there is no such setting. {_advice(name, known)}"
        return
    if value == "":  # sets nothing
        return
    if not _is_of_kind(value, setting.kind):
        kind = setting.kind.partition(" of ")[0]
        article = "" if kind == "true or false" else "a "
        yield f"{place}: not {article}{kind}. Write {name} = {_EXAMPLES[kind]}"
    if any("\0" in text for text in _texts(value)):
        yield f"{place}: a text with a null character. Remove it."
    if config.is_public and any(
        text and (setting.secret or without_credentials(text) != text) for text in _texts(value)
    ):
        yield (
            f"{place}: a secret in a file that every user can read. Run: chmod 600 {config.path}"
        )


def _is_of_kind(value: Any, kind: str) -> bool:
    types = _TYPES.get(kind.partition(" of ")[0])
    if types is None:
        return True
    return isinstance(value, types) and (bool in types or not isinstance(value, bool))


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        for inner in value:
            yield from _texts(inner)
    elif isinstance(value, dict):
        for inner in value.values():
            yield from _texts(inner)
