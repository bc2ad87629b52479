"""ConfigMaps compared with the settings that the services read."""

from __future__ import annotations

import functools
import importlib
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

from searchbus_runtime import ServiceSettings
from searchbus_runtime.config_file import WrongSettingsError
from searchbus_runtime.config_sources import SECRETS_DIR
from searchbus_runtime.services import installed_services
from searchbus_runtime.settings import read_settings

from .engine import SERVICES
from .manifests import Manifests


def settings_faults(manifests: Manifests) -> Iterator[str]:
    for service in SERVICES:
        if ("Deployment", service) not in manifests.names:
            continue
        environment = manifests.environment(service)
        cls = settings_of(service)
        for name in environment:
            field = name.removeprefix("SEARCHBUS_").lower()
            if name != SECRETS_DIR and field not in cls.model_fields:
                yield f"ConfigMap of {service}: there is no setting {name}"
        given = {name: text for name, text in environment.items() if name != SECRETS_DIR}
        with tempfile.TemporaryDirectory() as empty, mock.patch.dict(os.environ, given, clear=True):
            try:
                read_settings(cls, service, data_dir=Path(empty))
            except WrongSettingsError as error:
                yield from (f"ConfigMap of {service}: {fault}" for fault in error.faults)


@functools.cache
def settings_of(service: str) -> type[ServiceSettings]:
    """The settings class of a service."""
    module, _, name = installed_services()[service].settings.partition(":")
    return getattr(importlib.import_module(module), name)
