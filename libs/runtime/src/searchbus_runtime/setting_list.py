"""Every setting of every service: what checks, the configuration file and docs/settings.md read.

The list of searchbus's own services is setting_list.json, which `make proto` writes from their
settings classes: a process knows the names of services that are not installed beside it. Services
of others are described by their classes (setting_classes.py). This module needs no pydantic.
"""

from __future__ import annotations

import functools
import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

PREFIX = "SEARCHBUS_"
SHARED = ""
"""In the place of a service's name: settings that every service has."""
LIST = Path(__file__).with_name("setting_list.json")
EXTRA = f"{PREFIX}EXTRA_SETTINGS"
"""Environment variable that `searchbus up --service` sets: service → names of settings, JSON."""
OTHER_VARIABLES = frozenset(
    PREFIX + name
    for name in (
        "CONFIG", "SECRETS_DIR",  # where settings are
        "DECLARATIONS", "SERVICE",  # of container images
        "EXTRA_SETTINGS", "SETTINGS_FD",  # from `searchbus up` to its processes
        "TOKEN", "URL",  # of clients: the commands and the examples
        "CHECK_REPLIES", "DIST", "REAL_SERVERS", "TEST_RUN",  # of the tests
    )
)  # fmt: skip
"""Variables with the prefix that are not settings of a service."""
_UNITS = {
    "_per_s": "per second", "_rpm": "per minute", "_s": "seconds", "_ms": "milliseconds",
    "_bytes": "bytes", "_bytes_per_caller": "bytes", "_mib": "MiB",
}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """One setting of a service.

    Args:
        kind: what its value is: "text", "whole number", "list of texts", "table of numbers" …
        default: as JSON; `None` where it is not set.
        least, most, above: limits of a number; `least` and `most` also of a list's entries, and of
            a text's characters.
        choices: the allowed texts.
        pattern: regular expression of a text.
    """

    name: str
    kind: str
    description: str = ""
    default: Any = None
    least: float | None = None
    most: float | None = None
    above: float | None = None
    choices: tuple[str, ...] = ()
    pattern: str = ""
    secret: bool = False

    @property
    def variable(self) -> str:
        """Its environment variable."""
        return f"{PREFIX}{self.name.upper()}"

    @property
    def unit(self) -> str:
        """The unit of its number, which its name ends with; empty where it has none."""
        return next((unit for end, unit in _UNITS.items() if self.name.endswith(end)), "")

    @property
    def range(self) -> str:
        """The allowed values in words; empty where all of its kind are."""
        if self.choices:
            return " or ".join(self.choices)
        if self.pattern:
            return f"matches {self.pattern}"
        low = f"more than {_plain(self.above)}" if self.above is not None else _plain(self.least)
        high = _plain(self.most)
        if not (low or high):
            return ""
        counted = {"list": " entries", "text": " characters"}.get(self.kind.partition(" ")[0], "")
        if low and high:
            return f"{low} to {high}{counted}"
        if high:
            return f"at most {high}{counted}"
        return (low if self.above is not None else f"at least {low}") + counted


def _plain(number: float | None) -> str:
    return "" if number is None else f"{number:.15g}"


Settings = Mapping[str, Mapping[str, Setting]]
"""Service (or SHARED) → name → setting."""


@functools.cache
def listed_settings() -> Settings:
    """The settings of searchbus's own services."""
    found = json.loads(LIST.read_text(encoding="utf-8"))
    return {service: settings_from_json(rows) for service, rows in found.items()}


def settings_from_json(rows: list[dict[str, Any]]) -> dict[str, Setting]:
    """Name → setting, of rows of the list."""
    return {
        row["name"]: Setting(**{**row, "choices": tuple(row.get("choices", ()))}) for row in rows
    }


def extra_settings() -> dict[str, tuple[str, ...]]:
    """Names of the settings of services that `searchbus up --service` runs, by service."""
    text = os.environ.get(EXTRA)
    return {name: tuple(names) for name, names in json.loads(text).items()} if text else {}


def with_names(settings: Settings, names: Mapping[str, Iterable[str]]) -> Settings:
    """Settings, and those of which `names` (by service) is all that is known."""
    return {
        **settings,
        **{
            service: {name: Setting(name=name, kind="") for name in found}
            for service, found in names.items()
            if service not in settings
        },
    }
