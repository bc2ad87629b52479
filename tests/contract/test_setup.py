"""scripts/setup: shows how far it is, and stops where pip fails."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PIP = """#!/bin/sh
echo "$@" >> pip-calls
for number in $(seq 45); do echo "Collecting package-$number==1.0"; done
echo "Installing collected packages: package-1"
[ ! -e pip-fails ] || { echo "ERROR: no connection" >&2; exit 1; }
"""


@pytest.fixture
def checkout(tmp_path):
    """A repository whose Python only plays pip."""
    for name in ("scripts", "requirements"):
        shutil.copytree(ROOT / name, tmp_path / name)
    (tmp_path / "libs" / "one").mkdir(parents=True)
    for path in ("pyproject.toml", "libs/one/pyproject.toml"):
        (tmp_path / path).write_text("")
    (tmp_path / "services").mkdir()
    (tmp_path / "services" / "two").mkdir()
    (tmp_path / "services" / "two" / "pyproject.toml").write_text("")
    python = tmp_path / ".venv" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.write_text(PIP)
    python.chmod(0o755)
    return tmp_path


def setup(folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [folder / "scripts" / "setup"], cwd=folder, capture_output=True, text=True, timeout=300
    )


def test_progress_is_counted(checkout):
    """A line for every twenty packages, where it is no terminal; the second time it does nothing."""
    done = setup(checkout)
    assert done.returncode == 0, done.stderr
    lines = [line.rstrip() for line in done.stdout.splitlines()]
    first = [line for line in lines if line.startswith("setup: packages (hashed lock): ")]
    counts = [line.rpartition(": ")[2].split(" of about ")[0] for line in first]
    assert counts == ["20", "40", "installing", "done"]
    assert lines[-1] == "setup: done"
    assert setup(checkout).stdout == ""


def test_one_wheel_of_everything_does_not_hide_the_checkout(checkout):
    """`pip install .`, as the README says, puts it into the same environment."""
    assert setup(checkout).returncode == 0
    calls = (checkout / "pip-calls").read_text()
    assert 0 < calls.find(" uninstall -qq --yes searchbus\n") < calls.find(" -e libs/one ")


def test_failure_of_pip_ends_it(checkout):
    """With pip's own message, and without the stamp of a finished set-up."""
    (checkout / "pip-fails").write_text("")
    done = setup(checkout)
    assert done.returncode == 1
    assert "ERROR: no connection" in done.stderr
    assert not (checkout / ".venv" / "searchbus.stamp").exists()
