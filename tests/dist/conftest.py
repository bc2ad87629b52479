"""What `make dist` built, and the installers that try it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="session")
def dist(tmp_path_factory) -> Path:
    """The folder that `make dist` wrote; else one that its script writes now."""
    if named := os.environ.get("SEARCHBUS_DIST"):
        return Path(named)
    folder: Path = tmp_path_factory.mktemp("dist")
    subprocess.run([ROOT / "scripts" / "dist", folder], check=True, stdout=subprocess.DEVNULL)
    return folder


@pytest.fixture(scope="session")
def wheel(dist) -> Path:
    """The wheel in it."""
    (found,) = dist.glob("searchbus-*.whl")
    return found


@pytest.fixture(scope="session")
def sdist(dist) -> Path:
    """The sdist in it."""
    (found,) = dist.glob("searchbus-*.tar.gz")
    return found


@pytest.fixture(scope="session")
def installers(tmp_path_factory) -> Path:
    """The folder with the programs uv, uvx and pipx, of the versions in the lock."""
    folder: Path = tmp_path_factory.mktemp("installers")
    subprocess.run([sys.executable, "-m", "venv", folder], check=True)
    command = [folder / "bin" / "python", "-m", "pip", "install", "--quiet", "--require-hashes",
               "-r", ROOT / "requirements" / "installers.txt"]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode and "SEARCHBUS_DIST" not in os.environ:
        pytest.skip(f"no registry of Python packages answers: {done.stderr.strip()[-200:]}")
    assert done.returncode == 0, done.stderr
    return folder / "bin"
