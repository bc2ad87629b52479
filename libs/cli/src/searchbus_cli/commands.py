"""A group of commands that imports a command when it is called, not to list it.

A command's target is `module:attribute`: a function, or a `typer.Typer` with commands of its own.
The first line of the function's docstring (or the `help` of the Typer) stands in the help of the
group. It is read from the source, because importing every command takes seconds.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from importlib import import_module
from importlib.machinery import PathFinder
from pathlib import Path
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command, get_group

from .output import fail

__all__ = ["CommandGroup", "help_line"]


class CommandGroup(TyperGroup):
    """A group of commands by name → target; sub-groups by `add_group`."""

    def add_targets(self, targets: Mapping[str, str]) -> None:
        """Add commands; a name that is taken keeps its first target."""
        for name, target in targets.items():
            if name not in self.commands:
                self.add_command(_Deferred(name, target))

    def add_group(self, name: str, text: str) -> CommandGroup:
        """Add a sub-group with its help text; returns it."""
        group = CommandGroup(name=name, help=text, no_args_is_help=True)
        self.add_command(group)
        return group

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
        """Import the command that is called."""
        name, command, rest = super().resolve_command(ctx, args)
        return name, command.load() if isinstance(command, _Deferred) else command, rest


class _Deferred(TyperCommand):
    """Name and help line of a command that is not imported yet."""

    def __init__(self, name: str, target: str) -> None:
        super().__init__(name=name, help=help_line(target))
        self.target = target

    def load(self) -> Any:
        """The command itself; ends with an error where its package is broken."""
        module, _, attribute = self.target.partition(":")
        try:
            found = getattr(import_module(module), attribute)
        except Exception as error:  # of a package that others wrote
            package = module.partition(".")[0].replace("_", "-")
            raise fail(
                f"The command {self.name} cannot be imported ({type(error).__name__}: {error}). "
                f"Install {package} again."
            ) from None
        if isinstance(found, typer.Typer):
            command: Any = get_group(found)
        else:
            app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
            app.command(self.name)(found)
            command = get_command(app)
        command.name = self.name
        return command


def help_line(target: str) -> str:
    """The first line that describes a command, without importing it; empty where none is found."""
    module, _, attribute = target.partition(":")
    path = _source(module)
    if path is None:
        return ""
    try:
        tree = ast.parse(path.read_bytes())
    except (OSError, SyntaxError):
        return ""
    for node in tree.body:
        text = _description(node, attribute)
        if text is not None:
            return text.strip().partition("\n")[0]
    return ""


def _source(module: str) -> Path | None:
    """The file of a module, found without importing its package."""
    package, *inner = module.split(".")
    spec = PathFinder.find_spec(package)
    if spec is None:
        return None
    for folder in spec.submodule_search_locations or ():
        path = Path(folder, *inner)
        for candidate in (path.with_suffix(".py"), path / "__init__.py"):
            if candidate.is_file():
                return candidate
    return Path(spec.origin) if spec.origin and not inner else None


def _description(node: ast.stmt, name: str) -> str | None:
    if isinstance(node, ast.FunctionDef) and node.name == name:
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
