#!/usr/bin/env python3
"""Prints what an image is made of, from the pyproject.toml of every package.

scripts/parts.py IMAGE                  its folders: its own, and the libraries it needs, one a line
scripts/parts.py --requirements IMAGE   what these need from others, one requirement a line
scripts/parts.py --extra NAME           what this extra of a package needs, one requirement a line
scripts/parts.py --images               the images

An image is a service, or `cli`: the command line with the client that ingests documents. A service
that brings commands gets the command line too. `--requirements all` means the distribution: every
package, and the extras that it always has. requirements/runtime.txt locks it.
"""

import re
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def pyproject(folder: Path) -> dict:
    """The whole file of a package."""
    return tomllib.loads((folder / "pyproject.toml").read_text())


def project(folder: Path) -> dict:
    """Its table `project`."""
    return pyproject(folder)["project"]


def services() -> list[str]:
    """The names of the services' folders."""
    return sorted(path.parent.name for path in ROOT.glob("services/*/pyproject.toml"))


def own_folder(image: str) -> Path:
    """The package that an image is for."""
    return ROOT / "libs" / "ingest" if image == "cli" else ROOT / "services" / image


def distributed() -> list[Path]:
    """The folders of all packages that are for more than tests."""
    folders = sorted(path.parent for path in ROOT.glob("*/*/pyproject.toml"))
    return [
        folder
        for folder in folders
        if pyproject(folder).get("tool", {}).get("searchbus", {}).get("distributed", True)
    ]


def always() -> list[str]:
    """The extras that the distribution always has."""
    return pyproject(ROOT)["tool"]["searchbus"]["always"]


def parts(image: str) -> list[Path]:
    """The folders of the packages in an image."""
    libraries = {
        project(path.parent)["name"]: path.parent for path in ROOT.glob("libs/*/pyproject.toml")
    }
    found = [own_folder(image)]
    if "searchbus.commands" in project(found[0]).get("entry-points", {}):
        found.append(libraries["searchbus-cli"])
    waiting = list(found)
    while waiting:
        for dependency in project(waiting.pop())["dependencies"]:
            folder = libraries.get(dependency)
            if folder is not None and folder not in found:
                found.append(folder)
                waiting.append(folder)
    return found


def requirements(folders: list[Path]) -> list[str]:
    """What packages need from others."""
    found = {text for folder in folders for text in project(folder)["dependencies"]}
    return sorted(text for text in found if not re.match(r"searchbus-\w+$", text))


def extras() -> dict[str, list[str]]:
    """Name of an extra → what it needs, of all packages together."""
    found: dict[str, set[str]] = {}
    for folder in distributed():
        for name, texts in project(folder).get("optional-dependencies", {}).items():
            found.setdefault(name, set()).update(texts)
    return {name: sorted(texts) for name, texts in sorted(found.items())}


def of_the_distribution() -> list[str]:
    """What the distribution needs from others."""
    included = {text for name in always() for text in extras()[name]}
    return sorted({*requirements(distributed()), *included})


def main(arguments: list[str]) -> list[object]:
    """The lines to print.

    Raises:
        SystemExit: there is no such image.
    """
    if arguments == ["--images"]:
        return [*services(), "cli"]
    if arguments == ["--requirements", "all"]:
        return list(of_the_distribution())
    if arguments[:1] == ["--extra"]:
        return list(extras()[arguments[1]])
    image = arguments[-1] if arguments else ""
    if not image or not (own_folder(image) / "pyproject.toml").is_file():
        raise SystemExit(f"parts: name one of {', '.join([*services(), 'cli'])}, not {image!r}")
    return list(requirements(parts(image)) if arguments[0] == "--requirements" else parts(image))


if __name__ == "__main__":
    print("\n".join(map(str, main(sys.argv[1:]))))
