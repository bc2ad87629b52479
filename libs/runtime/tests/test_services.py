"""The services that a process knows: those that are installed, and those of a file."""

from __future__ import annotations

import subprocess
import sys

import pytest

from searchbus_contracts import encode
from searchbus_contracts.services import OPERATOR, Service
from searchbus_runtime.__main__ import main
from searchbus_runtime.services import (
    DECLARATIONS,
    ServiceDeclarationError,
    bus_users,
    declared_in,
    installed_services,
    known_services,
    run_service,
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
    path.write_bytes(encode({"elsewhere": ELSEWHERE}))
    monkeypatch.setenv(DECLARATIONS, str(path))
    assert known_services() == installed_services() | {"elsewhere": ELSEWHERE}
    assert "elsewhere" not in installed_services()


def test_what_is_installed_counts_more_than_the_file(monkeypatch, tmp_path):
    """A file from an older build does not change the process's own permissions."""
    name, service = next(iter(installed_services().items()))
    path = tmp_path / "declarations.json"
    path.write_bytes(encode({name: Service(name=name)}))
    monkeypatch.setenv(DECLARATIONS, str(path))
    assert known_services()[name] == service


def test_a_damaged_file_is_an_error(monkeypatch, tmp_path):
    """Keys for half of the services would lock out the others."""
    path = tmp_path / "declarations.json"
    path.write_text("{")
    monkeypatch.setenv(DECLARATIONS, str(path))
    with pytest.raises(ValueError):
        bus_users()


@pytest.fixture
def module(tmp_path, monkeypatch):
    """Writes a module `declared_here` with the text, to be imported."""
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "declared_here", raising=False)

    def write(text: str) -> str:
        (tmp_path / "declared_here.py").write_text(text)
        return "declared_here"

    yield write
    sys.modules.pop("declared_here", None)


IMPORT = "from searchbus_contracts.services import Service\n"


def test_service_of_a_module_is_found(module):
    """A module that is not installed."""
    name = module(IMPORT + "SERVICE = Service(name='here')\n")
    assert Service(name="here") == declared_in(name)


@pytest.mark.parametrize("text", ["", "service = 1\n"])
def test_module_without_a_service_declares_none(module, text):
    """It may be run as a program instead."""
    assert declared_in(module(text)) is None


def test_service_of_another_type_is_an_error(module):
    """With the name of the module."""
    with pytest.raises(ServiceDeclarationError, match=r"declared_here\.SERVICE must be"):
        declared_in(module("SERVICE = 'web'\n"))


@pytest.mark.parametrize(
    ("start", "said"),
    [
        ("", "declares start=''. Write module:attribute."),
        ("declared_here", "Write module:attribute."),
        ("declared_here:missing", "declared_here has no missing."),
    ],
)
def test_declaration_without_a_usable_start_is_an_error(module, start, said):
    """Before anything is started."""
    module("")
    with pytest.raises(ServiceDeclarationError, match=said):
        run_service(Service(name="here", start=start))


@pytest.mark.parametrize(
    ("arguments", "text", "said"),
    [
        ([], "", "usage: python -m searchbus_runtime NAME"),
        (["a", "b"], "", "usage: python -m searchbus_runtime NAME"),
        (["no_such_service"], "", "There is no service and no module no_such_service. Installed"),
        (["declared_here"], "", "The module declared_here declares no service."),
        (["declared_here"], "SERVICE = 1\n", "must be a searchbus_contracts Service."),
    ],
)
def test_runner_names_what_is_wrong(module, capsys, arguments, text, said):
    """Exit code 2: another start would end in the same way."""
    module(text)
    assert main(arguments) == 2
    assert said in capsys.readouterr().err


def test_missing_library_of_a_module_is_not_mistaken_for_a_missing_module(module):
    """Its traceback says what to install."""
    with pytest.raises(ModuleNotFoundError, match="no_such_library"):
        main([module("import no_such_library\n")])


def test_runner_runs_an_installed_service_with_its_settings(monkeypatch):
    """The name of the declaration becomes the name of the process."""
    started = []

    def run(name, settings, start):
        started.append((name, type(settings).__name__, start.__module__))
        return 0

    monkeypatch.setattr("searchbus_runtime.process.run", run)
    assert main(["ddg"]) == 0
    assert started == [("ddg", "DdgSettings", "searchbus_ddg.service")]


def test_sigterm_ends_the_imports(module, tmp_path):
    """Also as the first process of a container, to which the kernel gives it for a handler only."""
    module("import sys; print('imported', flush=True); sys.stdin.read()")
    process = subprocess.Popen(
        [sys.executable, "-m", "searchbus_runtime", "declared_here"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=tmp_path,
    )  # fmt: skip
    assert process.stdout.readline() == "imported\n"
    process.terminate()
    assert process.wait(300) == 143


def test_nothing_is_collected_while_a_service_starts(module, tmp_path):
    """`run` enables it when the service is up."""
    module("import gc, sys; print(gc.isenabled()); sys.exit(0)")
    done = subprocess.run(
        [sys.executable, "-m", "searchbus_runtime", "declared_here"],
        capture_output=True, text=True, check=True, cwd=tmp_path,
    )  # fmt: skip
    assert done.stdout == "False\n"
