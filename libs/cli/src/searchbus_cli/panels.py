"""The help of a group of commands, in panels.

Typer's own renderer looks the same. Importing it takes longer than all the rest of `--help`: it has
Markdown, syntax highlighting and tracebacks.
"""

from __future__ import annotations

import shutil
import sys
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import typer

Rows = Sequence[tuple[str, str]]
"""Names, each with its line of help."""
REST = "Commands"
"""The panel of commands that no other panel has."""
_LEAST_WIDTH = 40
_CORNERS = ("╭", "─", "╮", "│", "╰", "╯")
_PLAIN_CORNERS = ("+", "-", "+", "|", "+", "+")
"""For a screen whose encoding has no others."""


def print_help(group: Any, context: Any, panels: Mapping[str, Sequence[str]]) -> None:
    """Print usage, options and commands of a group; `panels`: title → commands in the order
    shown."""
    width = max(_LEAST_WIDTH, shutil.get_terminal_size((80, 24)).columns)
    typer.secho(f"\n {group.get_usage(context)}\n", bold=True)
    for paragraph in (group.help or "").split("\n\n"):
        typer.echo(textwrap.indent(textwrap.fill(paragraph, width - 2), " ") + "\n")
    records = (param.get_help_record(context) for param in group.get_params(context))
    _print_panel("Options", [record for record in records if record is not None], 0, width)
    visible = {
        name: (command.help or "").partition("\n\n")[0]
        for name in group.list_commands(context)
        if (command := group.get_command(context, name)) is not None and not command.hidden
    }
    longest = max(map(len, visible), default=0)
    for title, names in panels.items():
        _print_panel(title, list(_taken(visible, names)), longest, width)
    _print_panel(REST, list(visible.items()), longest, width)


def _taken(visible: dict[str, str], names: Iterable[str]) -> Iterator[tuple[str, str]]:
    """The commands of one panel; they leave `visible`."""
    for name in names:
        if name in visible:
            yield name, visible.pop(name)


def _print_panel(title: str, rows: Rows, longest: int, width: int) -> None:
    if not rows:
        return
    is_unicode = (sys.stdout.encoding or "").lower().startswith("utf")
    left, line, right, side, low_left, low_right = _CORNERS if is_unicode else _PLAIN_CORNERS
    longest = max(longest, *(len(name) for name, _ in rows))
    rest = max(1, width - longest - 6)
    edge = typer.style(side, dim=True)
    typer.echo(
        typer.style(f"{left}{line} {title} {line * (width - len(title) - 5)}{right}", dim=True)
    )
    for name, text in rows:
        shown = typer.style(name.ljust(longest), fg="cyan", bold=True)
        for part in textwrap.wrap(text, rest) or [""]:
            typer.echo(f"{edge} {shown}  {part.ljust(rest)} {edge}")
            shown = " " * longest
    typer.echo(typer.style(f"{low_left}{line * (width - 2)}{low_right}", dim=True))
