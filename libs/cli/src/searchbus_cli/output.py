"""What commands print: results on standard output, errors on standard error.

Titles, names and messages come from others. Brackets in them are no markup (`markup=True` is for
text of our own), and their control characters never reach a terminal.
"""

from __future__ import annotations

import codecs
import io
import json
import sys
from collections.abc import Iterable
from contextlib import suppress
from typing import Any

import typer
from rich.console import Console
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from searchbus_runtime.wording import printable

UNLIMITED_CHARS = 100_000


class Terminal(Console):
    """A console for text of others."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**{"markup": False, "emoji": False, **options})

    def render(self, renderable: Any, options: Any = None) -> Iterable[Segment]:
        """Every text that is printed passes here, before colors are added."""
        for segment in super().render(renderable, options):
            if segment.control:
                yield segment
            else:
                yield Segment(printable(segment.text), segment.style)


out = Terminal()
err = Terminal(stderr=True)


def echo(text: str) -> None:
    """Print a result: as it is into a pipe or a file, without control characters elsewhere."""
    typer.echo(printable(text) if out.is_terminal else text)


def echo_json(value: object, *, indent: int | None = None) -> None:
    """Print a result as JSON, which stays JSON where the encoding of the output lacks letters."""
    has_all = codecs.lookup(sys.stdout.encoding or "ascii").name.startswith("utf")
    echo(json.dumps(value, indent=indent, ensure_ascii=not has_all))


def tell(line: str | Text, *, markup: bool = False) -> None:
    """Print a line to standard error, for a process that must go on where that is impossible.

    Standard error may be a file on a full disk, or a pipe that nobody reads any more.
    """
    with suppress(OSError):
        err.print(line, highlight=False, soft_wrap=True, markup=markup)


def print_table(table: Table) -> None:
    """Print a table: within the width of a terminal; elsewhere each row in one whole line."""
    if out.is_terminal:
        out.print(table)
        return
    text = io.StringIO()
    Terminal(file=text, width=UNLIMITED_CHARS).print(table)
    for line in text.getvalue().splitlines():
        typer.echo(line.rstrip())


def print_error(message: str) -> None:
    """Print an error on standard error."""
    text = Text.assemble(("error:", "red"), f" {message}")
    err.print(text, highlight=False, soft_wrap=True)


def fail(message: str, code: int = 1) -> typer.Exit:
    """Print what happened and what to do; `raise fail("…")`. Code 2: wrong arguments; 1: anything
    else."""
    print_error(message)
    return typer.Exit(code)
