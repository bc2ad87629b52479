"""One version number for all packages."""

from __future__ import annotations

import tomllib
from pathlib import Path

import searchbus_contracts

ROOT = Path(__file__).parents[2]


def test_every_package_has_the_version_of_the_contracts():
    """A release changes one number in the code: each pyproject.toml refers to it."""
    for path in [ROOT / "pyproject.toml", *ROOT.glob("*/*/pyproject.toml")]:
        read = tomllib.loads(path.read_text())
        assert "version" in read["project"]["dynamic"], path
        source = path.parent / read["tool"]["hatch"]["version"]["path"]
        assert source.resolve() == Path(searchbus_contracts.__file__), path
