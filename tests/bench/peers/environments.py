"""Virtual environments of the peers, in build/peers; the pinned packages are in NAME.txt.

python = environment("fastmcp")     # Path("build/peers/fastmcp/bin/python")
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

from searchbus_testing.folders import locked

from ..progress import progress

FOLDER = Path(__file__).parents[3] / "build" / "peers"
_PINS = Path(__file__).parent
_STAMP = "installed.txt"
_TIMEOUT_S = 1200.0


class NotInstalledError(Exception):
    """The packages of a peer could not be installed; the message says why."""


def environment(name: str, pins: Path | None = None) -> Path:
    """The Python of a peer's environment, which is made when it is absent or its pins have changed.

    Args:
        pins: a file elsewhere with the packages, for one that is no peer.

    Raises:
        NotInstalledError: e.g. without a connection to a package index.
    """
    pins = pins or _PINS / f"{name}.txt"
    # Several processes of one run of the tests may need it.
    with locked(FOLDER / f"{name}.lock"):
        return _made(name, pins)


def _made(name: str, pins: Path) -> Path:
    folder = FOLDER / name
    python = folder / "bin" / "python"
    if is_made(name, pins):
        return python
    progress(f"peers: installing {name} into {folder}")
    shutil.rmtree(folder, ignore_errors=True)
    # A pip of its own, and modules that nobody imports compiled, would take longer than the rest.
    # The file names every package: without --no-deps pip would resolve them again.
    install = ["--python", python, "install", "--quiet", "--disable-pip-version-check",
               "--no-compile", "--no-deps", "-r", pins]  # fmt: skip
    for command in (["venv", "--without-pip", folder], ["pip", *install]):
        try:
            subprocess.run(
                [sys.executable, "-m", *command],
                check=True, capture_output=True, text=True, timeout=_TIMEOUT_S,
            )  # fmt: skip
        except subprocess.CalledProcessError as error:
            lines = error.stderr.strip().splitlines() or [f"exit code {error.returncode}"]
            raise NotInstalledError(f"{name} could not be installed: {lines[-1]}") from error
        except (OSError, subprocess.TimeoutExpired) as error:
            raise NotInstalledError(f"{name} could not be installed: {error}") from error
    (folder / _STAMP).write_text(pins.read_text())
    return python


def is_made(name: str, pins: Path) -> bool:
    """Whether the environment is there, with the packages of `pins`."""
    stamp = FOLDER / name / _STAMP
    return stamp.exists() and stamp.read_text() == pins.read_text()


def versions(name: str) -> dict[str, str]:
    """The pinned version of each package of a peer."""
    lines = (_PINS / f"{name}.txt").read_text().splitlines()
    return dict(line.split("==") for line in lines if "==" in line)
