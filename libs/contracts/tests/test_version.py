"""One version for all packages."""

from __future__ import annotations

import importlib.metadata

from searchbus_contracts import VERSION


def test_the_version_is_that_of_the_installed_package():
    """pyproject.toml says the same."""
    assert importlib.metadata.version("searchbus-contracts") == VERSION
