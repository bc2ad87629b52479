#!/usr/bin/env python3
"""Prints the licences of the packages of a lock, as Markdown: a table, then each text once.

scripts/licenses.py requirements/runtime.txt > LICENSES.md

The packages must be installed in the environment that runs it; those of other platforms are listed
without a licence. The names of licences are the packages' own words, the texts their own files.
"""

import re
import sys
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path

TEXT = re.compile(r"(licen[cs]e|copying|notice)[^/]*$", re.IGNORECASE)


def name_of(found: Distribution) -> str:
    """The licence in the package's words; the first line where these are the whole text."""
    kinds = [
        text.rpartition(" :: ")[2]
        for text in found.metadata.get_all("Classifier") or []
        if text.startswith("License ::")
    ]
    said = found.metadata["License-Expression"] or found.metadata["License"]
    return (said or ", ".join(kinds) or "see its text").strip().splitlines()[0]


def texts_of(found: Distribution) -> list[str]:
    """Its licence files."""
    paths = [
        path for path in found.files or [] if ".dist-info" in str(path) and TEXT.search(str(path))
    ]
    return [Path(str(path.locate())).read_text(errors="replace").strip() for path in sorted(paths)]


def main(lock: Path) -> None:
    """Print the page."""
    print(
        "# Licences of what searchbus needs\n\n| package | version | licence |\n| --- | --- | --- |"
    )
    owners: dict[str, list[str]] = {}
    for name, version in re.findall(r"^([\w.-]+)==([^\s;\\]+)", lock.read_text(), re.MULTILINE):
        try:
            found = distribution(name)
        except PackageNotFoundError:
            print(f"| {name} | {version} | on other platforms only |")
            continue
        print(f"| {name} | {found.version} | {name_of(found)} |")
        for text in texts_of(found):
            owners.setdefault(text, []).append(name)
    for text, names in owners.items():
        print(f"\n## {', '.join(names)}\n\n```text\n{text}\n```")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
