"""Declarations of services: where they are found, and how a declared service is run."""

from __future__ import annotations

import os
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Any

from searchbus_contracts.services import (
    ENTRY_POINT_GROUP,
    OPERATOR,
    Service,
    declarations_from_json,
)

from .config_file import ConfigFile
from .config_sources import Sources

ATTRIBUTE = "SERVICE"
"""The name of the declaration in a service's package."""
DECLARATIONS = "SEARCHBUS_DECLARATIONS"
"""Environment variable: a file with the declarations of services that are not installed here."""


class ServiceDeclarationError(TypeError):
    """A package declares its service wrongly; the message says what to change."""


def installed_services() -> dict[str, Service]:
    """Name → declaration of every installed service, sorted; raises ServiceDeclarationError."""
    found = sorted(entry_points(group=ENTRY_POINT_GROUP), key=lambda entry: entry.name)
    return {entry.name: _declaration(entry) for entry in found}


def is_wanted(service: Service, data: Path, config: ConfigFile | None = None) -> bool:
    """Whether a stack on a data folder runs a service: the file of `started_by` exists, if any."""
    if not service.started_by:
        return True
    return (named_file(service, config) or data / service.started_by[1]).is_file()


def named_file(service: Service, config: ConfigFile | None = None) -> Path | None:
    """The file that a setting names as the one that starts a service (`Service.started_by`)."""
    text = Sources(service.name, config).text(service.started_by[0]) if service.started_by else None
    return Path(text) if text else None


def known_services() -> dict[str, Service]:
    """The installed services, and those that the file of SEARCHBUS_DECLARATIONS lists.

    A container image holds one service and that file (scripts/declarations.py), so that its
    `searchbus` command can write keys and permissions for all. Raises OSError, ValueError.
    """
    found = installed_services()
    path = os.environ.get(DECLARATIONS)
    if path:
        found = {**declarations_from_json(Path(path).read_bytes()), **found}
    return dict(sorted(found.items()))


def bus_users() -> dict[str, Service]:
    """Every holder of a key on a secured bus: the services, and the operator's command line."""
    return {**known_services(), OPERATOR.name: OPERATOR}


def declared_in(module: str) -> Service | None:
    """The `SERVICE` of a module, if any; raises ImportError, ServiceDeclarationError."""
    found = getattr(import_module(module), ATTRIBUTE, None)
    if found is not None and not isinstance(found, Service):
        raise ServiceDeclarationError(
            f"{module}.{ATTRIBUTE} must be a searchbus_contracts Service."
        )
    return found


def settings_class(service: Service) -> Any:
    """The settings class of a service; raises ServiceDeclarationError where there is none."""
    return _load(service, "settings")


def run_service(service: Service) -> int:
    """Run a service until SIGTERM; its exit code. Raises ServiceDeclarationError (no `start`)."""
    from .secrecy import take_settings

    take_settings()
    from .process import run
    from .settings import forget_secrets, load_settings

    # The settings first, which import little: the edge's say how the models of the rest are built.
    settings, start = settings_class(service), _load(service, "start")
    loaded = load_settings(settings, service.name)
    forget_secrets(settings)
    count = getattr(loaded, "processes", 1)
    if count > 1:
        from .several import run_several

        return run_several(service.name, loaded, start, count)
    return run(service.name, loaded, start)


def _declaration(entry: EntryPoint) -> Service:
    service = entry.load()
    if not isinstance(service, Service) or service.name != entry.name:
        raise ServiceDeclarationError(
            f"The entry point {entry.name} = {entry.value} of group {ENTRY_POINT_GROUP} must lead "
            f"to a Service named {entry.name}."
        )
    return service


def _load(service: Service, field: str) -> Any:
    target: str = getattr(service, field)
    module, _, attribute = target.partition(":")
    if not (module and attribute):
        raise ServiceDeclarationError(
            f"The service {service.name} declares {field}={target!r}. Write module:attribute."
        )
    try:
        return getattr(import_module(module), attribute)
    except AttributeError:
        raise ServiceDeclarationError(
            f"The service {service.name} declares {field}={target!r}, but {module} has no "
            f"{attribute}."
        ) from None
