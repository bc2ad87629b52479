"""Hatchling's hooks for the distribution `searchbus`: one wheel with all of libs/ and services/.

Dependencies, extras, commands and entry points stand in the pyproject.toml of the package that has
them, and nowhere else.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface
from hatchling.metadata.plugin.interface import MetadataHookInterface

sys.path.insert(0, str(Path(__file__).parent))

from parts import always, distributed, extras, of_the_distribution, project


class DistributionMetadata(MetadataHookInterface):
    """What the packages need and bring, as metadata of the distribution."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Fill the fields that pyproject.toml calls dynamic, except the version.

        Raises:
            ValueError: two packages have an entry point of one group and name.
        """
        scripts: dict[str, str] = {}
        entry_points: dict[str, dict[str, str]] = {}
        for folder in distributed():
            found = project(folder)
            _add(scripts, found.get("scripts", {}))
            for group, points in found.get("entry-points", {}).items():
                _add(entry_points.setdefault(group, {}), points)
        metadata["dependencies"] = of_the_distribution()
        metadata["optional-dependencies"] = {
            name: texts for name, texts in extras().items() if name not in always()
        }
        metadata["scripts"] = scripts
        metadata["entry-points"] = entry_points


class DistributionWheel(BuildHookInterface):
    """Takes the packages' folders into the wheel."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Name the folders; of an editable installation, for the path of Python."""
        sources = [folder / "src" for folder in distributed()]
        packages = [package for source in sources for package in source.glob("searchbus_*")]
        if version == "editable":
            self.build_config.target_config["dev-mode-dirs"] = [
                str(source.relative_to(self.root)) for source in sources
            ]
            return
        build_data["force_include"] |= {str(package): package.name for package in packages}


def _add(known: dict[str, str], more: dict[str, str]) -> None:
    twice = sorted(known.keys() & more)
    if twice:
        raise ValueError(f"Two packages declare the entry point {', '.join(twice)}.")
    known |= more
