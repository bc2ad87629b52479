"""Real MCP servers, installed once into build/servers: those of npm, and those of the Python index.

commands = installed()      # raises NotInstalledError where npm or a registry is absent
commands["git"]             # Command("…/python/bin/mcp-server-git", ())
"""

from __future__ import annotations

import json
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from ..bench.peers.environments import NotInstalledError, environment, is_made

FOLDER = Path(__file__).parent
BUILD = Path(__file__).parents[2] / "build" / "servers"
PINS = {"servers": FOLDER / "python.txt", "servers-sdk1": FOLDER / "python_sdk1.txt"}
"""Name of the environment → its packages; servers need one version of the SDK or the other."""
PACKAGES = FOLDER / "npm.txt"
_TIMEOUT_S = 1200.0


@dataclass(frozen=True)
class Command:
    """A program and what comes before its own arguments."""

    program: str
    arguments: tuple[str, ...] = ()


def is_installed() -> bool:
    """Whether all of them are there as the files name them."""
    python = (is_made(name, pins) for name, pins in PINS.items())
    return all(python) and _npm_is_installed()


def installed() -> dict[str, Command]:
    """Package → its command; installs what is absent.

    Raises:
        NotInstalledError: npm is absent, or a package could not be installed; with the reason.
    """
    _install_npm()
    node = node_program()
    found = {}
    for name, pins in PINS.items():
        found |= {p.name: Command(str(p)) for p in environment(name, pins).parent.iterdir()}
    for line in PACKAGES.read_text().split():
        package = line.rpartition("@")[0]
        found[package] = Command(node, (str(_script(package)),))
    return found


def node_program() -> str:
    """Node of this machine.

    Raises:
        NotInstalledError: there is none, or no npm.
    """
    for program in ("npm", "node"):
        if shutil.which(program) is None:
            raise NotInstalledError(f"there is no {program} on this machine")
    return str(shutil.which("node"))


def _npm_stamp() -> Path:
    return BUILD / "npm" / "installed.txt"


def _npm_is_installed() -> bool:
    return _npm_stamp().exists() and _npm_stamp().read_text() == PACKAGES.read_text()


def _install_npm() -> None:
    if _npm_is_installed():
        return
    node_program()
    folder = BUILD / "npm"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "package.json").write_text('{"private": true}')
    options = (
        "--no-audit",
        "--no-fund",
        "--no-package-lock",
        "--ignore-scripts",
        "--loglevel=error",
    )
    try:
        subprocess.run(
            ["npm", "install", "--prefix", folder, *options, *PACKAGES.read_text().split()],
            check=True, capture_output=True, text=True, timeout=_TIMEOUT_S,
        )  # fmt: skip
    except subprocess.CalledProcessError as error:
        lines = error.stderr.strip().splitlines() or [f"exit code {error.returncode}"]
        raise NotInstalledError(f"npm could not install the servers: {lines[-1]}") from error
    except (OSError, subprocess.TimeoutExpired) as error:
        raise NotInstalledError(f"npm could not install the servers: {error}") from error
    _npm_stamp().write_text(PACKAGES.read_text())


def _script(package: str) -> Path:
    """The file that a package's command runs."""
    folder = BUILD / "npm" / "node_modules" / package
    binary = json.loads((folder / "package.json").read_text())["bin"]
    return folder / (binary if isinstance(binary, str) else next(iter(binary.values())))
