"""Checks the arrows inside each package: no circle of modules or folders, layers in one direction."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCES = sorted(path for path in ROOT.glob("*/*/src/searchbus_*") if path.is_dir())

LAYERS: dict[str, tuple[str, ...]] = {
    "searchbus_attach": (
        "declare", "definitions", "transports", "auth", "upstream", "sessions", "commands",
    ),
    "searchbus_edge": (
        "http", "auth", "catalog", "tools", "search", "composites", "plans", "tasks", "skills",
        "lending", "mcp", "interfaces", "bootstrap", "stdio",
    ),
    "searchbus_bus": (
        "tasks", "telemetry", "identity", "store", "transport", "client", "worker", "nats", "bus",
        "catalog", "memory",
    ),
    "searchbus_retrieval": ("question", "documents", "ranking", "searching", "library", "service"),
    "searchbus_web": ("providers", "extraction"),
}  # fmt: skip
"""Folders of a package, lowest first: each may import those before it, none after it."""
UNFINISHED: set[str] = set()
"""Packages with circles of modules or folders."""


def modules(source: Path) -> dict[tuple[str, ...], Path]:
    """The modules of a package by their path in it; a folder's face has the folder's path."""
    found = {}
    for path in sorted(source.rglob("*.py")):
        parts = path.relative_to(source).with_suffix("").parts
        found[parts[:-1] if parts[-1] == "__init__" else parts] = path
    return found


def imported(source: Path) -> dict[tuple[str, ...], set[tuple[str, ...]]]:
    """What each module of a package imports of the same package."""
    known = modules(source)
    return {
        module: set(_of_package(source.name, module, path, known)) for module, path in known.items()
    }


def _of_package(
    name: str, module: tuple[str, ...], path: Path, known: Mapping[tuple[str, ...], Path]
) -> Iterator[tuple[str, ...]]:
    folder = module if path.name == "__init__.py" else module[:-1]
    for node in ast.walk(ast.parse(path.read_text())):
        if not isinstance(node, ast.ImportFrom):
            continue
        parts = tuple((node.module or "").split(".")) if node.module else ()
        if node.level:
            base = folder[: len(folder) - node.level + 1] + parts
        elif parts[:1] == (name,):
            base = parts[1:]
        else:
            continue
        for alias in node.names:
            found = (*base, alias.name)
            yield found if found in known else base


def circle(graph: Mapping[tuple[str, ...], set[tuple[str, ...]]]) -> list[str]:
    """The nodes of one circle of a graph, the first one repeated; empty where there is none."""
    done: set[tuple[str, ...]] = set()

    def walk(node: tuple[str, ...], way: list[tuple[str, ...]]) -> list[tuple[str, ...]]:
        if node in way:
            return [*way[way.index(node) :], node]
        if node in done:
            return []
        for target in sorted(graph.get(node, ())):
            if found := walk(target, [*way, node]):
                return found
        done.add(node)
        return []

    for start in sorted(graph):
        if found := walk(start, []):
            return [".".join(node) for node in found]
    return []


def folders(
    graph: Mapping[tuple[str, ...], set[tuple[str, ...]]],
) -> dict[tuple[str, ...], set[tuple[str, ...]]]:
    """The same graph between the first-level folders; modules of the root stay themselves."""
    found: dict[tuple[str, ...], set[tuple[str, ...]]] = {}
    for module, targets in graph.items():
        here = found.setdefault(module[:1], set())
        here.update(target[:1] for target in targets if target[:1] != module[:1])
    return found


@pytest.mark.parametrize("source", SOURCES, ids=lambda source: source.name)
def test_no_circle_of_modules_or_folders(source: Path):
    """Inside a package each import points one way; its face may import all."""
    graph = {module: targets - {()} for module, targets in imported(source).items() if module}
    found = circle({m: t - {m} for m, t in graph.items()}) or circle(folders(graph))
    assert (found != []) == (source.name in UNFINISHED), found


@pytest.mark.parametrize("name", LAYERS)
def test_folders_follow_their_layers(name: str):
    """A folder imports only the ones below it."""
    source = next(path for path in SOURCES if path.name == name)
    graph = folders(imported(source))
    order = LAYERS[name]
    for position, folder in enumerate(order):
        above = set(order[position + 1 :])
        assert not {target[0] for target in graph[(folder,)] if target} & above, folder


def test_a_circle_is_found():
    """The check can fail: three modules in a circle, and none in a chain."""
    assert circle({("a",): {("b",)}, ("b",): {("c",)}, ("c",): {("a",)}}) == ["a", "b", "c", "a"]
    assert circle({("a",): {("b",), ("c",)}, ("b",): {("c",)}}) == []
