"""The pages of the site: Markdown files from where they lie, pages made from the code, contents.

A file keeps its place in the repository. Its links to other pages lead to those of the site, its
links to files that are no pages become plain text.
"""

from __future__ import annotations

import itertools
import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

from . import reference

ROOT = Path(__file__).parents[2]
PLACES = {
    "README.md": "index.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
    "tests/README.md": "tests.md",
    "proto/README.md": "reference/wire.md",
    "deploy/k8s/README.md": "packages/k8s.md",
    "examples/README.md": "examples/index.md",
}
"""Pages whose place is not their file's."""
CONTENTS = {
    "Start": ["tutorial"],
    "Guides": [
        "guides/install", "examples/index", "guides/documents", "guides/sync",
        "guides/keys", "attach",
        "guides/find-tools", "guides/plans", "guides/memory", "extensions", "http",
        "guides/console", "guides/web-search", "guides/pages", "guides/sites", "guides/scrapers",
        "guides/workers", "guides/traces", "guides/back-up", "deploy", "runbooks", "operations",
    ],
    "Reference": [
        "reference/commands", "settings", "reference/tools", "reference/http", "reference/wire",
        "reference/messages", "reference/metrics", "errors", "platforms", "glossary",
    ],
    "Explanation": [
        "architecture", "decisions/index", "performance", "performance/peers", "scale",
        "reliability", "security", "comparison",
    ],
    "Work on it": ["contributing", "tests", "release", "changelog", "packages/index"],
}  # fmt: skip
"""The contents by heading. A page that is in no part of them fails the build."""
_PARTS = {"decisions/index.md": "[0-9]*", "packages/index.md": "[a-z]*"}
"""Pages that have others below them → which ones in their folder."""
_LINK = re.compile(
    r"(!?)\[((?:[^\[\]]|\[[^\]]*\])*)\]\((?!https?:|mailto:|#)([^)#\s]+)(#[^)\s]*)?\)"
)
_FENCE = re.compile(r"^\s*(```|~~~)")


def files() -> dict[str, str]:
    """The path of each Markdown file of the site → the path of its page."""
    found = dict(PLACES)
    for path in sorted(ROOT.glob("docs/**/*.md")):
        # A file without a title is part of a page that is put together elsewhere.
        if path.read_text(encoding="utf-8").startswith("# "):
            page = path.with_name("index.md") if path.name == "README.md" else path
            found[str(path.relative_to(ROOT))] = str(page.relative_to(ROOT / "docs"))
    for path in sorted([*ROOT.glob("libs/*/README.md"), *ROOT.glob("services/*/README.md")]):
        found[str(path.relative_to(ROOT))] = f"packages/{path.parent.name}.md"
    return found


def gather(folder: Path) -> None:
    """Write everything that Sphinx reads into an empty folder."""
    shutil.rmtree(folder, ignore_errors=True)
    places = files()
    for source, page in places.items():
        _write(folder / page, relinked((ROOT / source).read_text(encoding="utf-8"), source, places))
    for path in [*ROOT.glob("docs/**/*.svg"), *ROOT.glob("examples/**/*.*")]:
        if path.suffix != ".md":
            name = path.relative_to(ROOT)
            target = folder / (name.relative_to("docs") if name.parts[0] == "docs" else name)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, target)
    for page, text in reference.pages().items():
        _write(folder / page, text)
    for page, pattern in _PARTS.items():
        parts = sorted(p.stem for p in (folder / page).parent.glob(f"{pattern}.md"))
        _append(folder / page, _toctree("", [p for p in parts if p != "index"]))
    for heading, names in CONTENTS.items():
        _append(folder / "index.md", _toctree(heading, names))


def relinked(text: str, source: str, places: dict[str, str]) -> str:
    """The text of a file with the links of its page.

    Args:
        source: the path of the file in the repository.
        places: paths of files → of pages.
    """

    def link(found: re.Match[str]) -> str:
        bang, label, target, anchor = found[1], found[2], found[3], found[4] or ""
        path = os.path.normpath(os.path.join(os.path.dirname(source), target))  # noqa: PTH118, PTH120
        if (ROOT / path / "README.md").is_file():
            path = f"{path}/README.md"
        here = os.path.dirname(places[source])  # noqa: PTH120
        if path in places:
            return f"[{label}]({os.path.relpath(places[path], here or '.')}{anchor})"
        if path.endswith(".svg") or path.startswith("examples/"):
            return f"{bang}[{label}]({os.path.relpath(path.removeprefix('docs/'), here or '.')})"
        return label

    # The label of a link may go on in the next line.
    blocks = itertools.groupby(_lines(text), key=lambda line: line[1])
    return "".join(
        block if fenced else _LINK.sub(link, block)
        for fenced, lines in blocks
        for block in ["".join(line for line, _ in lines)]
    )


def _lines(text: str) -> Iterator[tuple[str, bool]]:
    """Each line, and whether it belongs to a block of code."""
    fence = ""
    for line in text.splitlines(keepends=True):
        mark = _FENCE.match(line)
        inside = bool(fence or mark)
        if mark and not fence:
            fence = mark[1]
        elif mark and mark[1] == fence:
            fence = ""
        yield line, inside


def _toctree(heading: str, names: list[str]) -> str:
    caption = f":caption: {heading}\n" if heading else ""
    return f"\n```{{toctree}}\n:hidden:\n:maxdepth: 2\n{caption}\n" + "\n".join(names) + "\n```\n"


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def _append(path: Path, text: str) -> None:
    _write(path, path.read_text(encoding="utf-8") + text)
