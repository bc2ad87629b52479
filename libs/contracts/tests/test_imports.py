"""The package is light: every process and command imports it."""

from __future__ import annotations

import importlib.metadata
import subprocess
import sys

from searchbus_contracts import VERSION

_PROGRAM = """
import importlib, pkgutil, sys
import msgspec
before = {name.partition(".")[0] for name in sys.modules}
import searchbus_contracts
for module in pkgutil.iter_modules(searchbus_contracts.__path__):
    importlib.import_module(f"searchbus_contracts.{module.name}")
loaded = {name.partition(".")[0] for name in sys.modules} - before
print(*sorted(loaded - set(sys.stdlib_module_names)))
"""


def test_only_msgspec_is_imported():
    """By all modules together, besides the standard library and what msgspec imports itself."""
    done = subprocess.run(
        [sys.executable, "-c", _PROGRAM], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["searchbus_contracts"]


def test_the_version_is_that_of_the_installed_package():
    """pyproject.toml says the same."""
    assert importlib.metadata.version("searchbus-contracts") == VERSION
