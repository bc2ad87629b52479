"""The help of a group of commands, in panels.

Typer's own renderer looks the same. Importing it takes as long as all the rest of `--help`:
it has Markdown, syntax highlighting and tracebacks.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from rich.padding import Padding
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from .output import out

Rows = Sequence[tuple[str, str]]
"""Names, each with its line of help."""
REST = "Commands"
"""The panel of commands that no other panel has."""


def print_help(group: Any, context: Any, panels: Mapping[str, Sequence[str]]) -> None:
    """Print usage, options and commands of a group.

    Args:
        panels: title → names of commands, in the order in which they are shown.
    """
    out.print(Padding(Text(group.get_usage(context), style="bold"), 1))
    if group.help:
        out.print(Padding(Text(group.help), (0, 1, 1, 1)))
    records = (param.get_help_record(context) for param in group.get_params(context))
    tables = {"Options": [record for record in records if record is not None]}
    visible = {
        name: (command.help or "").partition("\n\n")[0]
        for name in group.list_commands(context)
        if (command := group.get_command(context, name)) is not None and not command.hidden
    }
    tables |= {title: list(_taken(visible, names)) for title, names in panels.items()}
    tables[REST] = list(visible.items())
    width = max(len(name) for rows in [*tables.values()][1:] for name, _ in rows)
    for title, rows in tables.items():
        if rows:
            out.print(_panel(title, rows, 0 if title == "Options" else width))


def _taken(visible: dict[str, str], names: Iterable[str]) -> Iterator[tuple[str, str]]:
    """The commands of one panel; they leave `visible`."""
    for name in names:
        if name in visible:
            yield name, visible.pop(name)


def _panel(title: str, rows: Rows, width: int) -> Panel:
    table = Table(box=None, show_header=False, expand=True, pad_edge=False)
    table.add_column(style="bold cyan", no_wrap=True, min_width=width)
    table.add_column(ratio=1)
    for name, line in rows:
        table.add_row(name, line)
    return Panel(table, title=title, title_align="left", border_style="dim")
