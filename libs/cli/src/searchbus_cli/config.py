"""`searchbus config`: what is set and where, a commented file of all settings, what is wrong."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from searchbus_runtime import data_folder
from searchbus_runtime.config_check import check_config, other_settings
from searchbus_runtime.config_file import (
    FILE_NAME,
    MODE,
    ConfigFile,
    WrongSettingsError,
    config_text,
    find_config,
    named_config,
    use_config,
)
from searchbus_runtime.config_sources import Given, Sources
from searchbus_runtime.files import write_atomically
from searchbus_runtime.services import (
    ServiceDeclarationError,
    installed_services,
    settings_class,
)
from searchbus_runtime.setting_list import SHARED, Setting, Settings, listed_settings
from searchbus_runtime.state import open_data_folder
from searchbus_runtime.wording import without_credentials

from .output import echo, fail, out, print_error, print_table

LOADING_ERRORS = (ServiceDeclarationError, ImportError, AttributeError)
HIDDEN = "(hidden)"
Config = Annotated[
    Path | None,
    typer.Option(help="Configuration file (default: searchbus.toml in the data folder)."),
]
Data = Annotated[Path | None, typer.Option(help="Data folder.")]


@dataclass(frozen=True)
class Row:
    """A setting as it is in force, for a service or for all; `given`: what sets it, by precedence,
    if anything."""

    service: str
    setting: Setting
    given: tuple[Given, ...]

    @property
    def value(self) -> Any:
        """Its value; secrets are hidden."""
        value = self.given[0].value if self.given else self.setting.default
        if self.setting.secret:
            return HIDDEN if value else value
        is_text = self.setting.kind in ("text", "path", "")
        if isinstance(value, str) and not is_text and self.given[0].source != "file":
            try:  # lists and numbers are JSON in the environment
                value = json.loads(value)
            except ValueError:
                pass  # `config check` says that it is wrong
        return _without_credentials(value)

    @property
    def origin(self) -> str:
        """Where it is set, and what that overrides."""
        if not self.given:
            return "default"
        first, *others = (f"{g.source}: {g.place}".removeprefix("file: ") for g in self.given)
        return f"{first} (overrides {', '.join(others)})" if others else first


def show(
    config: Config = None,
    data: Data = None,
    changed: Annotated[
        bool, typer.Option("--changed", help="Only what is set, without defaults.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="The settings as JSON.")] = False,
) -> None:
    """Show every setting, its value and where that is set; secrets are hidden.

    `searchbus up` gives its own processes some values more, such as the address of its NATS server.

    Example: searchbus config show --changed
    """
    use_config(config)
    folder = data_folder(data)
    file = find_config(folder)
    sources = check_config(Sources(SHARED, file), folder)
    settings = {**sources.settings, **other_settings(sources.settings)}
    rows = [row for row in _rows(settings, file, data) if row.given or not changed]
    if as_json:
        found = [
            {
                "service": row.service,
                "name": row.setting.name,
                "value": row.value,
                "from": row.given[0].source if row.given else "default",
                "place": row.given[0].place if row.given else "",
                "overrides": [given.place for given in row.given[1:]],
            }
            for row in rows
        ]
        text = {"file": str(file.path) if file else None, "data_dir": str(folder)}
        echo(json.dumps({**text, "settings": found}))
        return
    where = f"Configuration file: {file.path}" if file else "No configuration file"
    out.print(f"{where}. Data folder: {folder}", highlight=False, soft_wrap=True)
    table = Table("setting", "value", "where it is set", box=None)
    for row in rows:
        name = f"{row.service}.{row.setting.name}" if row.service else row.setting.name
        table.add_row(
            name, "" if row.value is None else json.dumps(row.value, ensure_ascii=False), row.origin
        )
    print_table(table)


def init(
    config: Config = None,
    data: Data = None,
    force: Annotated[bool, typer.Option("--force", help="Replace a file that exists.")] = False,
) -> None:
    """Write a configuration file with every setting, its description and its default as comments.

    Only its owner can read it, because it may hold keys.

    Example: searchbus config init
    """
    path = config or named_config()
    try:
        path = (path or open_data_folder(data) / FILE_NAME).absolute()
        if os.path.lexists(path) and not force:
            raise fail(f"{path} exists. Edit it, or replace it: searchbus config init --force")
        settings = listed_settings()
        write_atomically(path, config_text({**settings, **other_settings(settings)}), mode=MODE)
    except OSError as error:
        raise fail(
            f"{path} cannot be written ({error.strerror}). Name another file with --config."
        ) from None
    echo(f"Written: {path}. Remove the # of a setting to change it; then: searchbus config check")


def check(config: Config = None, data: Data = None) -> None:
    """Check the settings of every installed service; print a line for each fault.

    The exit code is 2 where something is wrong.

    Example: searchbus config check
    """
    use_config(config)
    folder = data_folder(data)
    try:
        faults = faults_of(folder)
    except LOADING_ERRORS as error:
        raise fail(f"A service cannot be loaded: {error}. Install its package again.") from None
    for fault in faults:
        print_error(fault)
    if faults:
        raise typer.Exit(2)
    file = find_config(folder)
    echo(f"The settings are in order ({file.path if file else 'no configuration file'}).")


def faults_of(folder: Path) -> list[str]:
    """A line for each fault in the settings of the installed services, by the data folder; raises
    LOADING_ERRORS where the package of a service is broken."""
    # Imported here: settings classes take long, and the other commands need none.
    from searchbus_runtime.settings import read_settings

    try:
        file = find_config(folder)
        check_config(Sources(SHARED, file), folder)
        classes = {name: settings_class(one) for name, one in installed_services().items()}
    except WrongSettingsError as error:
        return list(error.faults)
    faults: dict[str, None] = {}
    for name, cls in classes.items():
        try:
            read_settings(cls, name, data_dir=folder)
        except WrongSettingsError as error:
            faults.update(dict.fromkeys(error.faults))
    return list(faults)


def _rows(settings: Settings, file: ConfigFile | None, data: Path | None) -> Iterator[Row]:
    for service, table in settings.items():
        sources = Sources(service, file, settings)
        own = file.table(service) if file is not None and service else {}
        shown = {**{n: s for n, s in settings[SHARED].items() if n in own}, **table}
        for name, setting in shown.items():
            given = tuple(sources.find_all(name))
            if name == "data_dir" and data is not None:
                given = (Given(str(data_folder(data)), "command line", "--data"), *given)
            yield Row(service, setting, given)


def _without_credentials(value: Any) -> Any:
    if isinstance(value, str):
        return without_credentials(value)
    if isinstance(value, list):
        return [_without_credentials(inner) for inner in value]
    if isinstance(value, dict):
        return {name: _without_credentials(inner) for name, inner in value.items()}
    return value
