"""Unit tests lie beside the code, so that one finds them."""

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
def test_every_folder_is_tested(package: Path):
    """The behaviour of src/<package>/a is tested in tests/a, or in tests/test_a.py."""
    (source,) = (package / "src").glob("searchbus_*")
    missing = []
    for folder in {module.parent for module in source.rglob("*.py")}:
        tests = package / "tests" / folder.relative_to(source)
        file = tests.with_name(f"test_{tests.name}.py")
        if not any(tests.glob("test_*.py")) and not file.exists():
            missing.append(str(tests.relative_to(ROOT)))
    assert missing == []


@pytest.mark.parametrize("package", PACKAGES, ids=lambda package: package.name)
def test_names_of_test_files_name_a_folder_that_exists(package: Path):
    """A folder of tests has a folder of code of the same name; so nothing is tested elsewhere."""
    (source,) = (package / "src").glob("searchbus_*")
    for path in (package / "tests").rglob("test_*.py"):
        assert (source / path.parent.relative_to(package / "tests")).is_dir(), path
