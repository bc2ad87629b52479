"""Which services a stack runs."""

from __future__ import annotations

import sys

import pytest

from searchbus_cli import stack_services
from searchbus_cli.errors import StackError
from searchbus_cli.stack_services import StackService, find_services, needed_services
from searchbus_contracts.services import Service
from searchbus_runtime.services import ServiceDeclarationError
from searchbus_runtime.state import EVERYTHING

DECLARED = """
from searchbus_contracts.services import Service
SERVICE = Service(name="parrot", toolsets=("birds",), queue_group="birds")
"""


@pytest.fixture
def modules(tmp_path, monkeypatch):
    """Modules in the working folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setattr(stack_services, "installed_services", dict)
    (tmp_path / "declared_parrot.py").write_text(DECLARED)
    (tmp_path / "plain_parrot.py").write_text("raise SystemExit('started by an import')\n")
    (tmp_path / "wrong_parrot.py").write_text("SERVICE = 1\n")
    (tmp_path / "broken_parrot.py").write_text("import no_such_module\nSERVICE = 1\n")


def test_installed_services_run_by_their_declarations():
    """The generic runner finds a service by its name."""
    found = find_services({})
    assert {"edge", "web", "ddg", "retrieval", "toolindex"} <= set(found)
    assert found["web"].arguments == ("-m", "searchbus_runtime", "web")
    assert found["edge"].worker == "connector"


@pytest.mark.usefixtures("modules")
def test_module_with_a_declaration_runs_by_it():
    """Its worker is found by its queue group."""
    (service,) = find_services({"parrot": "declared_parrot"}).values()
    assert service.arguments == ("-m", "searchbus_runtime", "declared_parrot")
    assert service.worker == "birds"


@pytest.mark.usefixtures("modules")
def test_module_without_a_declaration_is_a_program_and_is_not_imported():
    """It may start its work when it is imported."""
    (service,) = find_services({"parrot": "plain_parrot"}).values()
    assert StackService("parrot", ("-m", "plain_parrot")) == service
    assert service.worker == "parrot"


@pytest.mark.usefixtures("modules")
@pytest.mark.parametrize(
    ("name", "module", "said"),
    [
        ("owl", "declared_parrot", "its SERVICE is named parrot"),
        ("parrot", "wrong_parrot", "must be a"),
        ("parrot", "broken_parrot", "no_such_module"),
        ("parrot", "dead_parrot", "there is no module dead_parrot"),
    ],
)
def test_declaration_that_cannot_be_used_is_named(name, module, said):
    """With the option that the user wrote."""
    with pytest.raises(StackError, match=f"--service {name}={module}: .*{said}"):
        find_services({name: module})


def test_broken_installed_service_is_named(monkeypatch):
    """Not a traceback."""

    def broken() -> dict[str, Service]:
        raise ServiceDeclarationError("The entry point x = y must lead to a Service.")

    monkeypatch.setattr(stack_services, "installed_services", broken)
    with pytest.raises(StackError, match="A service cannot be loaded: The entry point x"):
        find_services({})


def test_service_that_serves_nothing_has_no_worker():
    """The edge does not wait for it."""
    assert StackService("clock", (), Service(name="clock")).worker is None


def test_services_of_toolsets_are_those_that_they_need_with_the_edge():
    """And what was named without a declaration."""
    found = {
        "edge": StackService(
            "edge", (), Service(name="edge", toolsets=("own",), calls=("tool.>",))
        ),
        "a": StackService("a", (), Service(name="a", toolsets=("a",), calls=("b.do",))),
        "b": StackService("b", (), Service(name="b", endpoints=("do",))),
        "c": StackService("c", (), Service(name="c", toolsets=("c",))),
        "plain": StackService("plain", ()),
    }
    assert {"edge", "plain", "a", "b"} == needed_services(found, ["a"])
    assert {"edge", "plain", "b", "a", "c"} == needed_services(found, ["a", "c"])
    assert set(found) == needed_services(found, ["own"])
    assert set(found) == needed_services(found, [EVERYTHING])
    assert {"edge", "plain"} == needed_services(found, [])


def test_what_every_endpoint_waits_for_is_started_first():
    """Then what has most to import."""
    every = StackService("index", (), Service(name="index", serves_every_endpoint=True))
    preloads = StackService("store", (), Service(name="store", preload=("model",)))
    light = StackService("clock", (), Service(name="clock"))
    plain = StackService("plain", ())
    assert [service.rank for service in (every, preloads, light, plain)] == [0, 1, 2, 2]


def test_a_file_starts_a_service(tmp_path, monkeypatch):
    """The one that the variable names, else the one in the data folder."""
    monkeypatch.delenv("SEARCHBUS_OTHERS_FILE", raising=False)
    declared = Service(name="other", started_by=("SEARCHBUS_OTHERS_FILE", "others.toml"))
    service = StackService("other", ("-m", "x"), declared)
    assert not service.is_wanted(tmp_path)
    (tmp_path / "others.toml").write_text("")
    assert service.is_wanted(tmp_path)
    assert service.missing_file() == ""
    elsewhere = tmp_path / "elsewhere"
    monkeypatch.setenv("SEARCHBUS_OTHERS_FILE", str(elsewhere))
    assert not service.is_wanted(tmp_path)
    assert (
        f"SEARCHBUS_OTHERS_FILE: there is no file {elsewhere}, so other" in service.missing_file()
    )
    elsewhere.write_text("")
    assert (service.is_wanted(tmp_path), service.missing_file()) == (True, "")
    plain = StackService("x", ("-m", "x"))
    assert (plain.is_wanted(tmp_path), plain.missing_file()) == (True, "")
