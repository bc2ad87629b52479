"""The metrics that the code measures: found in its source, where their names stand whole."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
_MAKERS = {"create_counter": "counter", "create_histogram": "histogram"}
_METRIC = re.compile(r"(?:searchbus|mcp)\.[a-z_.]+")


def metrics() -> dict[str, tuple[str, str, str]]:
    """The name of each metric, as Prometheus shows it → its kind, its description, its package."""
    found = {}
    for path in sorted([*ROOT.glob("libs/*/src/**/*.py"), *ROOT.glob("services/*/src/**/*.py")]):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            for name, kind, text in _measured(node):
                family = name.replace(".", "_")
                kind, of_time, _ = kind.partition(" in seconds")
                family += "_total" if kind == "counter" else "_seconds" if of_time else ""
                found[family] = kind, text, path.relative_to(ROOT).parts[1]
    return dict(sorted(found.items()))


def _measured(node: ast.AST) -> Iterator[tuple[str, str, str]]:
    """Name, kind and description of what an expression measures."""
    if isinstance(node, ast.Dict):
        # A table of counters.
        for key, value in zip(node.keys, node.values, strict=True):
            if (name := _string(key)) and _METRIC.fullmatch(name) and (text := _string(value)):
                yield name, "counter", text
    if not isinstance(node, ast.Call):
        return
    called = ast.unparse(node.func).rpartition(".")[2]
    strings = [text for argument in node.args if (text := _string(argument))]
    keywords = {word.arg: _string(word.value) for word in node.keywords}
    names = [text for text in strings if _METRIC.fullmatch(text)]
    if not names or not (called in _MAKERS or "gauge" in called.lower()):
        return
    kind = _MAKERS.get(called, "gauge")
    if kind in ("histogram", "gauge") and keywords.get("unit") == "s":
        kind += " in seconds"
    yield names[0], kind, keywords.get("description") or strings[-1]


def _string(node: ast.AST | None) -> str:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""
