"""One version number for all packages."""

from __future__ import annotations

import tomllib
from pathlib import Path

import searchbus_contracts

ROOT = Path(__file__).parents[2]


def test_every_package_has_the_version_of_the_contracts():
    """A release changes one number in the code, and the same one in each pyproject.toml."""
    projects = [ROOT / "pyproject.toml", *ROOT.glob("*/*/pyproject.toml")]
    versions = {
        str(path.relative_to(ROOT)): tomllib.loads(path.read_text())["project"]["version"]
        for path in projects
    }
    assert versions == dict.fromkeys(versions, searchbus_contracts.VERSION)
