"""Unit tests mirror modules, so that one finds them."""

from __future__ import annotations

from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGES = sorted(
    source.parents[1]
    for source in ROOT.glob("*/*/src/searchbus_*")
    # For tests only: they are its use.
    if source.name != "searchbus_testing"
)


def test_there_are_packages():
    """The pattern finds libraries and services."""
    names = {package.name for package in PACKAGES}
    assert {"contracts", "bus", "runtime", "cli", "edge", "web"} <= names


@pytest.mark.parametrize("package", PACKAGES, ids=lambda package: package.name)
def test_every_module_has_a_test_module(package: Path):
    """src/<package>/a/b.py is tested by tests/a/test_b.py."""
    (source,) = (package / "src").glob("searchbus_*")
    missing = []
    for module in sorted(source.rglob("*.py")):
        expected = package / "tests" / module.parent.relative_to(source) / f"test_{module.name}"
        if not module.name.startswith("__") and not expected.exists():
            missing.append(str(expected.relative_to(ROOT)))
    assert missing == []
