"""The `searchbus` command: its own commands, and those of installed packages.

A package adds a command by an entry point of group `searchbus.commands`; the name
`tools.bench` puts it under `searchbus tools`.
"""

from __future__ import annotations

from importlib.metadata import entry_points

import typer
from typer.main import get_command

from .commands import CommandGroup

__all__ = ["command_line", "main"]

COMMANDS = {
    "up": "searchbus_cli.up:up",
    "tools.list": "searchbus_cli.tools:list_tools",
    "tools.call": "searchbus_cli.tools:call",
    "trace": "searchbus_cli.trace:trace",
    "doctor": "searchbus_cli.doctor:doctor",
    "nats-config": "searchbus_cli.nats_config:nats_config",
}
GROUPS = {"tools": "List and call the tools of the running stack."}


def command_line() -> CommandGroup:
    """Every command of this installation, none of them imported."""
    app = typer.Typer(
        name="searchbus",
        cls=CommandGroup,
        help="Search for agents, behind a message bus. Start with `searchbus up`.",
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback()(_no_options)
    root = get_command(app)
    assert isinstance(root, CommandGroup)
    found = sorted(entry_points(group="searchbus.commands"), key=lambda entry: entry.name)
    targets = {**{entry.name: entry.value for entry in found}, **COMMANDS}
    groups: dict[str, CommandGroup] = {"": root}
    for path in [*COMMANDS, *targets]:
        group, _, name = path.rpartition(".")
        if group not in groups:
            groups[group] = root.add_group(group, GROUPS.get(group, ""))
        groups[group].add_targets({name: targets[path]})
    return root


def _no_options() -> None:
    """The group takes no options of its own."""


def main() -> None:
    """Run the command line."""
    command_line()()
