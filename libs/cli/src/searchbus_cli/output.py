"""What commands print: results on standard output, errors on standard error."""

from __future__ import annotations

import io

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

__all__ = ["err", "fail", "out", "print_table"]

out = Console()
err = Console(stderr=True)
UNLIMITED_CHARS = 100_000


def print_table(table: Table) -> None:
    """Print a table: within the width of a terminal; elsewhere each row in one whole line."""
    if out.is_terminal:
        out.print(table)
        return
    text = io.StringIO()
    Console(file=text, width=UNLIMITED_CHARS).print(table)
    for line in text.getvalue().splitlines():
        typer.echo(line.rstrip())


def fail(message: str, code: int = 1) -> typer.Exit:
    """Print an error and return what to raise: `raise fail("…")`.

    Args:
        message: what happened, and what to do.
        code: of the exit: 2 for wrong arguments, 1 for anything else.
    """
    err.print(f"[red]error:[/] {escape(message)}", highlight=False, soft_wrap=True)
    return typer.Exit(code)
