"""Puts the commands together: its own, and those that installed services bring.

A service adds a command by an entry point of group `searchbus.commands`; the name
`tools.bench` puts it under `searchbus tools`.
"""

from __future__ import annotations

import sys
from importlib.metadata import entry_points

import typer

from .doctor import doctor
from .nats_config import nats_config
from .tools import tools
from .trace import trace
from .up import up

__all__ = ["app", "main"]

app = typer.Typer(
    name="searchbus",
    help="Search for agents, behind a message bus. Start with `searchbus up`.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command()(up)
groups = {"": app, "tools": tools}
app.add_typer(tools, name="tools")
app.command()(trace)
app.command()(doctor)
app.command("nats-config")(nats_config)


def _add_plugins() -> None:
    for entry in sorted(entry_points(group="searchbus.commands"), key=lambda e: e.name):
        try:
            group, _, name = entry.name.rpartition(".")
            command = entry.load()
            if isinstance(command, typer.Typer):
                groups[group].add_typer(command, name=name)
            else:
                groups[group].command(name)(command)
        except Exception as error:  # one broken package must not take the others along
            sys.stderr.write(f"warning: the command {entry.name} is broken: {error}\n")


_add_plugins()


def main() -> None:
    """Run the command line."""
    app()
