"""Packages whose names are imported at their first use (PEP 562).

    __getattr__, __dir__ = lazy_exports(__name__, {"bus": ("Bus", "WorkerInfo")})

A command such as `searchbus --help` imports several packages and needs almost nothing of them.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def lazy_exports(
    package: str, modules: Mapping[str, tuple[str, ...]]
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """`__getattr__` and `__dir__` of a package, by its modules → names that it exports."""
    module_of = {name: module for module, names in modules.items() for name in names}

    def load(name: str) -> Any:
        module = module_of.get(name)
        if module is None:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(import_module(f".{module}", package), name)
        # The next access finds the name itself.
        setattr(sys.modules[package], name, value)
        return value

    def names() -> list[str]:
        return sorted({*vars(sys.modules[package]), *module_of})

    return load, names
