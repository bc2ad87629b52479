"""The reference server `everything`, which npm puts into build/everything."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from searchbus_testing.folders import locked

FOLDER = Path(__file__).parents[2] / "build" / "everything"
VERSION = "2026.8.31"
_PACKAGE = "@modelcontextprotocol/server-everything"


def install_everything() -> list[str]:
    """Install it once; returns the command. Without Node.js and npm the test is skipped."""
    node, npm = shutil.which("node"), shutil.which("npm")
    if node is None or npm is None:
        pytest.skip("the server `everything` needs Node.js and npm")
    package = FOLDER / "node_modules" / _PACKAGE / "package.json"
    # Several processes of one run of the tests may need it.
    with locked(FOLDER.with_suffix(".lock")):
        _install(npm, package)
    return [node, str(package.parent / "dist" / "index.js"), "stdio"]


def _install(npm: str, package: Path) -> None:
    if not package.exists() or json.loads(package.read_text())["version"] != VERSION:
        FOLDER.mkdir(parents=True, exist_ok=True)
        (FOLDER / "package.json").write_text('{"private": true}')
        try:
            done = subprocess.run(
                [npm, "install", "--prefix", FOLDER, "--no-audit", "--no-fund",
                 "--no-package-lock", "--loglevel=error", f"{_PACKAGE}@{VERSION}"],
                capture_output=True, text=True, timeout=600,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            pytest.skip("npm does not install the server `everything` in ten minutes")
        if done.returncode != 0 or not package.exists():
            pytest.skip(f"npm cannot install the server `everything`: {done.stderr[-500:]}")
