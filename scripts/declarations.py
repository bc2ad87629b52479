#!/usr/bin/env python3
"""Prints the declarations of this tree's services as JSON; needs msgspec alone.

An image holds one service. The file that the Dockerfile makes with this script lists the others for
the `searchbus` command in it (SEARCHBUS_DECLARATIONS), which writes keys and permissions for all.
"""

import importlib
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
# The tree beside this file, also when another one is installed.
sys.path[:0] = [str(path) for path in (ROOT / "libs/contracts/src", *ROOT.glob("services/*/src"))]

import msgspec  # noqa: E402

from searchbus_contracts.services import ENTRY_POINT_GROUP, Service  # noqa: E402


def declared() -> dict[str, Service]:
    """Name → declaration of every service of this tree, sorted by name."""
    found = {}
    for path in ROOT.glob("services/*/pyproject.toml"):
        points = tomllib.loads(path.read_text())["project"].get("entry-points", {})
        for name, target in points.get(ENTRY_POINT_GROUP, {}).items():
            module, _, attribute = target.partition(":")
            found[name] = getattr(importlib.import_module(module), attribute)
    return dict(sorted(found.items()))


if __name__ == "__main__":
    sys.stdout.write(msgspec.json.encode(declared()).decode() + "\n")
