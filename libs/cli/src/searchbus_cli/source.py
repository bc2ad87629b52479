"""What a module's source says, read without importing the module or its package."""

from __future__ import annotations

import ast
from importlib.machinery import PathFinder
from pathlib import Path


def help_line(target: str) -> str:
    """The first line that describes `module:attribute`; empty where none is found.

    It is the docstring of a function, or the argument `help` of a call such as `typer.Typer(...)`.
    """
    module, _, attribute = target.partition(":")
    for node in _statements(module):
        text = _description(node, attribute)
        if text is not None:
            return text.strip().partition("\n")[0]
    return ""


def is_module(module: str) -> bool:
    """Whether Python finds the source of a module."""
    return _file(module) is not None


def assigns(module: str, name: str) -> bool:
    """Whether a module sets a name at its top level, by an assignment or an import."""
    for node in _statements(module):
        if isinstance(node, ast.Assign):
            targets = node.targets
        elif isinstance(node, ast.AnnAssign):
            targets = [node.target]
        elif isinstance(node, ast.ImportFrom):
            if any((alias.asname or alias.name) == name for alias in node.names):
                return True
            continue
        else:
            continue
        if any(isinstance(target, ast.Name) and target.id == name for target in targets):
            return True
    return False


def _statements(module: str) -> list[ast.stmt]:
    path = _file(module)
    if path is None:
        return []
    try:
        return ast.parse(path.read_bytes()).body
    except (OSError, SyntaxError, ValueError):
        return []


def _file(module: str) -> Path | None:
    package, *inner = module.split(".")
    spec = PathFinder.find_spec(package)
    if spec is None:
        return None
    for folder in spec.submodule_search_locations or ():
        path = Path(folder, *inner)
        for candidate in (path / "__init__.py", path.with_name(f"{path.name}.py")):
            if candidate.is_file() and (inner or candidate.name == "__init__.py"):
                return candidate
    return Path(spec.origin) if spec.origin and not inner else None


def _description(node: ast.stmt, name: str) -> str | None:
    """The description of a name where a statement defines it."""
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name == name:
        return ast.get_docstring(node) or ""
    if (
        isinstance(node, ast.Assign)
        and any(isinstance(target, ast.Name) and target.id == name for target in node.targets)
        and isinstance(node.value, ast.Call)
    ):
        for keyword in node.value.keywords:
            if keyword.arg == "help" and isinstance(keyword.value, ast.Constant):
                return str(keyword.value.value)
        return ""
    return None
