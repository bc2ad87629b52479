"""ConfigMaps compared with the settings that the services read."""

from __future__ import annotations

import importlib
import os
from collections.abc import Iterator
from unittest import mock

from pydantic import ValidationError

from searchbus_runtime import ServiceSettings
from searchbus_runtime.services import installed_services

from .engine import SERVICES
from .manifests import Manifests

__all__ = ["settings_faults", "settings_of"]


def settings_faults(manifests: Manifests) -> Iterator[str]:
    for service in SERVICES:
        if ("Deployment", service) not in manifests.names:
            continue
        environment = manifests.environment(service)
        cls = settings_of(service)
        for name in environment:
            field = name.removeprefix("SEARCHBUS_").lower()
            if name != "SEARCHBUS_SECRETS_DIR" and field not in cls.model_fields:
                yield f"ConfigMap of {service}: there is no setting {name}"
        with mock.patch.dict(os.environ, environment, clear=True):
            try:
                cls(_env_file=None)
            except ValidationError as error:
                yield f"ConfigMap of {service}: {error.errors()[0]['msg']}"


def settings_of(service: str) -> type[ServiceSettings]:
    """The settings class of a service."""
    module, _, name = installed_services()[service].settings.partition(":")
    return getattr(importlib.import_module(module), name)
