"""What a setting is set to, and where: environment, `.env`, files of secrets, configuration file.

A setting that is set nowhere is not found: its default is in its settings class.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

from .config_file import ConfigFile, WrongSettingsError, find_config
from .setting_list import PREFIX, Settings, extra_settings, listed_settings, with_names

DOTENV = Path(".env")
SECRETS_DIR = f"{PREFIX}SECRETS_DIR"
Source = Literal["command line", "environment", ".env", "secret file", "file", "default"]


@dataclass(frozen=True, slots=True)
class Given:
    """A value (a text, unless of the configuration file), and its variable, or file and line."""

    value: Any = field(repr=False)
    source: Source
    place: str


@dataclass(frozen=True)
class Sources:
    """The sources of one service's settings (a command's are SHARED), beside the command line and
    defaults."""

    service: str
    config: ConfigFile | None
    settings: Settings = field(
        default_factory=lambda: with_names(listed_settings(), extra_settings())
    )

    def find(self, name: str) -> Given | None:
        """What a setting is set to; `None` where nothing sets it. Empty texts set nothing."""
        return next(self.find_all(name), None)

    def find_all(self, name: str) -> Iterator[Given]:
        """Everything that sets a setting; the first is in force."""
        yield from self._variables(f"{PREFIX}{name}".upper())
        if self.config is not None and (value := self.file_values.get(name)) is not None:
            yield Given(value, "file", self.config.place(self.service, name))

    def text(self, name: str) -> str | None:
        """The same as text, of a setting that is one; also by the name of its variable."""
        found = self.find(name.removeprefix(PREFIX).lower())
        return str(found.value) if found is not None else None

    @cached_property
    def file_values(self) -> dict[str, Any]:
        """What the configuration file sets for the service."""
        if self.config is None:
            return {}
        values = self.config.values(self.service, self.settings)
        return {name: value for name, value in values.items() if value != ""}

    def _variables(self, variable: str) -> Iterator[Given]:
        for name, value in os.environ.items():
            if value and name.upper() == variable:
                yield Given(value, "environment", name)
        for name, text in self.dotenv.items():
            if text and name.upper() == variable:
                yield Given(text, ".env", f"{DOTENV}:{_line_of(name)}: {name}")
        for path in secret_files():
            if path.name.upper() == variable:
                yield Given(_read_text(path).strip(), "secret file", str(path))

    @cached_property
    def dotenv(self) -> Mapping[str, str | None]:
        """The variables of `.env` in the working folder."""
        if not DOTENV.is_file():
            return {}
        # Imported here: few have such a file.
        from dotenv import dotenv_values

        try:
            return dotenv_values(DOTENV, encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise _unreadable(DOTENV, error) from None


def configured_path(name: str, service: str, folder: Path) -> Path | None:
    """The path that a service's setting has, for commands beside it; raises WrongSettingsError."""
    text = Sources(service, find_config(folder)).text(name)
    return Path(text) if text is not None else None


def secret_files() -> list[Path]:
    """The files in the folder SEARCHBUS_SECRETS_DIR; raises WrongSettingsError."""
    named = os.environ.get(SECRETS_DIR)
    if not named:
        return []
    folder = Path(named)
    if not folder.is_dir():
        raise WrongSettingsError(
            f"{SECRETS_DIR}: there is no folder {folder}. Mount the service's secrets there, or "
            "unset it."
        )
    try:
        return sorted(path for path in folder.iterdir() if path.is_file())
    except OSError as error:
        raise _unreadable(folder, error) from None


def _line_of(name: str) -> int:
    for number, line in enumerate(_read_text(DOTENV).splitlines(), 1):
        if line.removeprefix("export ").lstrip().partition("=")[0].strip() == name:
            return number
    return 1


def _read_text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise _unreadable(path, error) from None


def _unreadable(path: Path, error: OSError | UnicodeDecodeError) -> WrongSettingsError:
    if isinstance(error, UnicodeDecodeError):
        return WrongSettingsError(f"{path}: not UTF-8. Save the file as UTF-8.")
    return WrongSettingsError(
        f"{path}: cannot be read ({error.strerror}). Make it readable: chmod u+r {path}"
    )
