"""The wheel, installed into empty environments with an empty home, and used there.

Nothing is fetched once it is installed: every proxy that a program might take leads nowhere.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from searchbus_contracts import VERSION
from searchbus_testing import eventually

pytestmark = pytest.mark.slow
ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "build" / "dist.json"
"""Way → seconds that it took, and MB that it left; `make dist` prints it."""
TEXT = "# Gloves\n\nWear nitrile gloves whenever you handle solvents.\n"
NOWHERE = "http://127.0.0.1:9"


@dataclass
class Machine:
    """An empty home, the installers, and what they are to install."""

    home: Path
    installers: Path
    dist: Path
    wheel: Path
    sdist: Path
    cache: Path

    def environment(self, **more: str) -> dict[str, str]:
        """Without settings and folders of the person who runs the tests."""
        ours = ("SEARCHBUS_", "XDG_", "VIRTUAL_ENV", "PYTHON", "COLUMNS")
        kept = {name: text for name, text in os.environ.items() if not name.startswith(ours)}
        return kept | {
            "HOME": str(self.home),
            "PATH": os.pathsep.join([str(self.installers), os.defpath]),
            "PIP_CACHE_DIR": str(self.cache / "pip"),
            "PIP_COMPILE": "0",  # most modules are never imported here
            "UV_CACHE_DIR": str(self.cache / "uv"),
            "UV_PYTHON": sys.executable,
            "PIPX_DEFAULT_PYTHON": sys.executable,
            **more,
        }

    def run(self, *command: object) -> None:
        """Run an installer.

        Raises:
            AssertionError: it failed, with what it printed.
        """
        done = subprocess.run(
            [*map(str, command)], capture_output=True, text=True, cwd=self.home,
            env=self.environment(), stdin=subprocess.DEVNULL,
        )  # fmt: skip
        assert done.returncode == 0, f"{command}:\n{done.stdout[-2000:]}{done.stderr[-4000:]}"

    def venv(self) -> Path:
        """A new environment, with pip; its folder of programs."""
        self.run(sys.executable, "-m", "venv", self.home / "venv")
        return self.home / "venv" / "bin"


def by_pip(machine: Machine) -> Sequence[object]:
    """`pip install WHEEL`."""
    programs = machine.venv()
    machine.run(programs / "pip", "install", machine.wheel)
    return [programs / "searchbus"]


def by_pip_with_hashes(machine: Machine) -> Sequence[object]:
    """The versions that the tests ran with, in two steps."""
    programs = machine.venv()
    lock = machine.dist / "constraints.txt"
    machine.run(programs / "pip", "install", "--require-hashes", "-r", lock)
    machine.run(programs / "pip", "install", "--no-deps", machine.wheel)
    return [programs / "searchbus"]


def by_pip_from_source(machine: Machine) -> Sequence[object]:
    """The sdist; pip fetches hatchling to build it."""
    programs = machine.venv()
    machine.run(programs / "pip", "install", machine.sdist)
    return [programs / "searchbus"]


def by_pip_without_network(machine: Machine) -> Sequence[object]:
    """From a folder that was filled where there is one."""
    programs = machine.venv()
    folder = machine.home / "wheels"
    machine.run(programs / "pip", "wheel", "--wheel-dir", folder, machine.wheel)
    machine.run(programs / "pip", "install", "--no-index", "--find-links", folder, "searchbus")
    shutil.rmtree(folder)
    return [programs / "searchbus"]


def by_uv_pip(machine: Machine) -> Sequence[object]:
    """`uv pip install`, with the tested versions."""
    machine.run("uv", "venv", "venv")
    python = machine.home / "venv" / "bin" / "python"
    constraints = ("--constraints", machine.dist / "constraints.txt")
    machine.run("uv", "pip", "install", "--python", python, *constraints, machine.wheel)
    return [python.with_name("searchbus")]


def by_uv_tool(machine: Machine) -> Sequence[object]:
    """`uv tool install WHEEL`."""
    machine.run("uv", "tool", "install", machine.wheel)
    return [machine.home / ".local" / "bin" / "searchbus"]


def by_pipx(machine: Machine) -> Sequence[object]:
    """`pipx install WHEEL`."""
    machine.run("pipx", "install", machine.wheel)
    return [machine.home / ".local" / "bin" / "searchbus"]


def by_uvx(machine: Machine) -> Sequence[object]:
    """`uvx --from WHEEL searchbus`, which installs with the first command."""
    command = ["uvx", "--from", machine.wheel, "searchbus"]
    machine.run(*command, "--version")
    return command


WAYS: dict[str, Callable[[Machine], Sequence[object]]] = {
    "pip": by_pip,
    "pip with hashes": by_pip_with_hashes,
    "pip from source": by_pip_from_source,
    "pip without network": by_pip_without_network,
    "uv pip": by_uv_pip,
    "uv tool": by_uv_tool,
    "pipx": by_pipx,
    "uvx": by_uvx,
}


@dataclass
class Installed:
    """The command `searchbus` of an installation."""

    command: list[str]
    machine: Machine

    def start(self, *arguments: object) -> subprocess.Popen[bytes]:
        """Start it; what it prints is in the file `printed` of the home."""
        with (self.machine.home / "printed").open("wb") as printed:
            return subprocess.Popen(
                [*self.command, *map(str, arguments)], stdout=printed, stderr=printed,
                cwd=self.machine.home, env=self._environment(),
            )  # fmt: skip

    def run(self, *arguments: object, given: str = "") -> str:
        """What it prints; it must end without an error."""
        done = subprocess.run(
            [*self.command, *map(str, arguments)], input=given, capture_output=True, text=True,
            cwd=self.machine.home, env=self._environment(), timeout=300,
        )  # fmt: skip
        assert done.returncode == 0, f"{arguments}:\n{done.stdout}{done.stderr}"
        return done.stdout

    def _environment(self) -> dict[str, str]:
        proxies = dict.fromkeys(("http_proxy", "https_proxy", "all_proxy"), NOWHERE)
        upper = {name.upper(): value for name, value in proxies.items()}
        offline = {"UV_OFFLINE": "1", "NO_PROXY": "127.0.0.1,localhost"}
        return self.machine.environment(**proxies, **upper, **offline)


@pytest.fixture(scope="session")
def cache(tmp_path_factory) -> Path:
    """What was fetched once serves the next installer."""
    folder: Path = tmp_path_factory.mktemp("cache")
    return folder


@pytest.fixture(scope="module", params=list(WAYS))
def installed(
    request, dist, wheel, sdist, installers, cache, tmp_path_factory
) -> Iterator[Installed]:
    """An installation by one of the ways; removed afterwards, for it is large."""
    home = tmp_path_factory.mktemp("home")
    machine = Machine(home, installers, dist, wheel, sdist, cache)
    started_s = time.monotonic()
    command = WAYS[request.param](machine)
    note(request.param, time.monotonic() - started_s, home)
    yield Installed([*map(str, command)], machine)
    shutil.rmtree(home)


def note(way: str, seconds: float, home: Path) -> None:
    """Keep what an installation took."""
    size = sum(path.lstat().st_size for path in home.rglob("*") if path.is_file())
    results = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    results[way] = {"seconds": round(seconds, 1), "MB": round(size / 1e6)}
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text(json.dumps(results, indent=1) + "\n")


def test_command_is_there(installed):
    """With its version and its help."""
    assert installed.run("--version") == f"searchbus {VERSION}\n"
    assert "ingest" in installed.run("--help")


def test_settings_are_written_and_checked(installed):
    """Before anything runs."""
    written = installed.machine.home / "searchbus.toml"
    installed.run("config", "init", "--config", written)
    assert "edge" in written.read_text()
    assert "in order" in installed.run("config", "check", "--config", written)


def test_folder_is_answered_from_and_the_stack_ends(installed):
    """By the commands of README, with the real embedding model, and for a client over stdio."""
    documents = installed.machine.home / "handbook"
    documents.mkdir()
    (documents / "gloves.md").write_text(TEXT)
    stack = installed.start("up", "--port", "0")
    try:
        state = installed.machine.home / ".local/share/searchbus/state.json"
        printed = installed.machine.home / "printed"
        eventually(lambda: state.exists() or stack.poll() is not None, timeout_s=300)
        assert stack.poll() is None, printed.read_text()
        installed.run("ingest", documents, "--collection", "handbook")
        assert "nitrile gloves" in installed.run(
            "search", "hand protection", "--collection", "handbook"
        )
        assert json.loads(installed.run("tools", "list", "-o", "json"))
        installed.run("doctor")
        installed.run("down")
        assert stack.wait(120) == 0, printed.read_text()
    finally:
        if stack.poll() is None:
            stack.terminate()
            stack.wait(120)
