"""A group of commands that imports a command when it is called, not to list it.

A command's target is `module:attribute`: a function, or a `typer.Typer` with commands of its own.
The help of the group shows the first line of the function's docstring (or the `help` of the Typer).
It is read from the source, because importing every command takes seconds.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from importlib import import_module
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command, get_group

from .output import fail
from .output_option import with_output_option
from .source import help_line


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

    def invoke(self, ctx: Any) -> Any:
        """Run the command that is called; a Fault that it does not handle is an error message."""
        try:
            return super().invoke(ctx)
        except Exception as error:
            # Only a command that imported the module of faults can raise one.
            errors = sys.modules.get("searchbus_contracts.errors")
            if errors is None or not isinstance(error, errors.Fault):
                raise
            raise fail(f"{error.code}: {error.failure.message}") from None

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
        """Import the command that is called."""
        name, command, rest = super().resolve_command(ctx, args)
        return name, command.load() if isinstance(command, _Deferred) else command, rest


class _Deferred(TyperCommand):
    """Name and help line of a command that is not imported yet. The line is read to be shown."""

    def __init__(self, name: str, target: str) -> None:
        self.target = target
        super().__init__(name=name)

    @property
    def help(self) -> str:
        """The first line that describes it."""
        return help_line(self.target)

    @help.setter
    def help(self, text: str | None) -> None:
        """What the base class sets, which has no text."""

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
            for registered in found.registered_commands:
                if registered.callback is not None:
                    registered.callback = with_output_option(registered.callback)
            command: Any = get_group(found)
        else:
            app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
            app.command(self.name)(with_output_option(found))
            command = get_command(app)
        command.name = self.name
        for one in (command, *getattr(command, "commands", {}).values()):
            one.help = _flowing(one.help)
        return command


def _flowing(text: str | None) -> str | None:
    """A docstring whose paragraphs break where the terminal ends; indented ones are kept."""
    if text is None:
        return None
    return "\n\n".join(
        paragraph if "\n " in paragraph else " ".join(paragraph.split("\n"))
        for paragraph in text.split("\n\n")
    )
