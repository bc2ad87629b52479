"""What commands print: results on standard output, errors on standard error."""

from __future__ import annotations

import typer
from rich.console import Console
from rich.markup import escape

__all__ = ["err", "fail", "out"]

out = Console()
err = Console(stderr=True)


def fail(message: str, code: int = 1) -> typer.Exit:
    """Print an error and return what to raise: `raise fail("…")`.

    Args:
        message: what happened, and what to do.
        code: of the exit: 2 for wrong arguments, 1 for anything else.
    """
    err.print(f"[red]error:[/] {escape(message)}", highlight=False, soft_wrap=True)
    return typer.Exit(code)
