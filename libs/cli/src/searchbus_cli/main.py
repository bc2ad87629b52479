"""The `searchbus` command: its own commands, and those of installed packages.

A package adds a command by an entry point of group `searchbus.commands`; the name
`tools.bench` puts it under `searchbus tools`.
"""

from __future__ import annotations

import sys
from collections.abc import MutableMapping
from io import TextIOWrapper
from typing import Annotated, Any

import typer
from typer.completion import (
    get_completion_inspect_parameters,
    install_callback,
    show_callback,
)

from searchbus_contracts import VERSION
from searchbus_runtime.secrecy import hide_environment

from .commands import CommandGroup

COMMANDS = {
    "init": "searchbus_cli.init:init",
    "connect": "searchbus_cli.connect:connect",
    "up": "searchbus_cli.up:up",
    "down": "searchbus_cli.down:down",
    "tools.list": "searchbus_cli.tools:list_tools",
    "tools.call": "searchbus_cli.tools:call",
    "tools.search": "searchbus_cli.tools_search:search",
    "web": "searchbus_cli.web_search:search",
    "trace": "searchbus_cli.trace:trace",
    "doctor": "searchbus_cli.doctor:doctor",
    "config.show": "searchbus_cli.config:show",
    "config.init": "searchbus_cli.config:init",
    "config.check": "searchbus_cli.config:check",
    "nats-config": "searchbus_cli.nats_config:nats_config",
    "plan": "searchbus_cli.plan:plan",
}
GROUPS = {
    "tools": "List and call the tools of the running stack.",
    "config": "Show, write and check the settings.",
}
PANELS = {
    "Start": ("init", "connect", "up", "stdio", "down"),
    "Use": ("search", "web", "tools"),
    "Fill": ("ingest", "sync", "attach"),
    "Operate": (
        "console", "doctor", "backup", "restore", "trace", "config", "keys", "pins", "nats-config",
        "server-json", "plan",
    ),
}  # fmt: skip
"""The order of the help; a command of another package is below, where it is not named here."""


class _Root(CommandGroup):
    """Every command of this installation, none of them imported."""

    panels = PANELS
    _found: dict[str, Any] | None = None

    @property
    def commands(self) -> MutableMapping[str, Any]:
        """Name → command. They are searched for at the first look: `--version` needs none."""
        if self._found is None:
            self._found = {}
            self._find()
        return self._found

    @commands.setter
    def commands(self, _: Any) -> None:
        """What the base class sets, which knows no commands."""

    def _find(self) -> None:
        # Imported here: it takes longer than all that `--version` does.
        from importlib.metadata import entry_points

        found = sorted(entry_points(group="searchbus.commands"), key=lambda entry: entry.name)
        groups: dict[str, CommandGroup] = {"": self}
        # Our own come first and cannot be replaced.
        for path, target in [*COMMANDS.items(), *((entry.name, entry.value) for entry in found)]:
            group, _, name = path.rpartition(".")
            if group not in groups:
                groups[group] = self.add_group(group, GROUPS.get(group, ""))
            groups[group].add_targets({name: target})


app = typer.Typer(
    name="searchbus",
    cls=_Root,
    help="Search for agents, behind a message bus. Start with `searchbus up`.",
    no_args_is_help=True,
    add_completion=False,  # its two options are below: Typer's take .1 s of each command
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"searchbus {VERSION}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version."
        ),
    ] = False,
    install_completion: Annotated[
        bool,
        typer.Option(
            "--install-completion",
            callback=install_callback,
            help="Install completion for this shell.",
        ),
    ] = False,
    show_completion: Annotated[
        bool,
        typer.Option(
            "--show-completion",
            callback=show_callback,
            help="Print the script of completion for this shell.",
        ),
    ] = False,
) -> None:
    """The command has options of its own, each of which ends it."""


def main() -> None:
    """Run the command line."""
    # A stack's process and a client's have keys, too.
    hide_environment()
    # A title may have letters that the encoding of a terminal or a pipe lacks.
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")
    get_completion_inspect_parameters()  # as a side effect, Typer knows the shells
    app(prog_name="searchbus")
