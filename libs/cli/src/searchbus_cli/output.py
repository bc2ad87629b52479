"""How commands speak: errors on standard error, with what to do, and an exit code."""

from __future__ import annotations

import typer
from rich.console import Console

__all__ = ["err", "fail", "out"]

out = Console()
err = Console(stderr=True)


def fail(message: str, code: int = 1) -> typer.Exit:
    """Print an error and return what to raise: `raise fail("…")`."""
    err.print(f"[red]error:[/] {message}", highlight=False, soft_wrap=True, markup=True)
    return typer.Exit(code)
