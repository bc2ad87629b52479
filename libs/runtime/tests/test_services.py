"""The services that a process knows: those that are installed, and those of a file."""

from __future__ import annotations

import pytest

from searchbus_contracts.services import OPERATOR, Service, declarations_to_json
from searchbus_runtime.services import (
    DECLARATIONS,
    bus_users,
    installed_services,
    known_services,
)

ELSEWHERE = Service(name="elsewhere", toolsets=("elsewhere",))


def test_every_holder_of_a_key_is_a_service_or_the_operator(monkeypatch):
    """The command line has a key of its own."""
    monkeypatch.delenv(DECLARATIONS, raising=False)
    assert known_services() == installed_services()
    assert set(bus_users()) == {*installed_services(), OPERATOR.name}


def test_services_of_the_file_are_known_too(monkeypatch, tmp_path):
    """An image writes the keys of services that it does not hold."""
    path = tmp_path / "declarations.json"
    path.write_bytes(declarations_to_json({"elsewhere": ELSEWHERE}))
    monkeypatch.setenv(DECLARATIONS, str(path))
    assert known_services() == installed_services() | {"elsewhere": ELSEWHERE}
    assert "elsewhere" not in installed_services()


def test_what_is_installed_counts_more_than_the_file(monkeypatch, tmp_path):
    """A file from an older build does not change the process's own permissions."""
    name, service = next(iter(installed_services().items()))
    path = tmp_path / "declarations.json"
    path.write_bytes(declarations_to_json({name: Service(name=name)}))
    monkeypatch.setenv(DECLARATIONS, str(path))
    assert known_services()[name] == service


def test_a_damaged_file_is_an_error(monkeypatch, tmp_path):
    """Keys for half of the services would lock out the others."""
    path = tmp_path / "declarations.json"
    path.write_text("{")
    monkeypatch.setenv(DECLARATIONS, str(path))
    with pytest.raises(ValueError):
        bus_users()
