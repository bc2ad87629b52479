"""What commands print."""

from __future__ import annotations

import io
import sys

import pytest
import typer
from rich.console import Console
from rich.table import Table

from searchbus_cli import output
from searchbus_cli.output import fail, print_table


@pytest.mark.parametrize(("arguments", "code"), [((), 1), ((2,), 2)])
def test_fail_prints_to_standard_error_and_returns_the_exit(capsys, arguments, code):
    """Brackets in the message are no markup, and long lines are not broken."""
    message = "[red] is no color here " + "x" * 200
    error = fail(message, *arguments)
    assert isinstance(error, typer.Exit)
    assert code == error.exit_code
    assert ("", f"error: {message}\n") == tuple(capsys.readouterr())


def test_what_cannot_be_printed_does_not_stop_a_process(monkeypatch):
    """Its standard error may be on a full disk."""

    class Full(io.StringIO):
        def write(self, text: str) -> int:
            raise OSError(28, "No space left on device")

    monkeypatch.setattr(output, "err", output.Terminal(file=Full()))
    output.tell("a line")


@pytest.fixture
def table() -> Table:
    """Wider than any terminal."""
    found = Table(box=None)
    for heading in ("name", "text"):
        found.add_column(heading, overflow="fold")
    found.add_row("short", "word " * 100 + "end")
    found.add_row("longer", "[b]")
    return found


def test_table_in_a_pipe_has_a_whole_line_for_each_row(table, capsys, monkeypatch):
    """So that grep finds it, without spaces at the end."""
    monkeypatch.setenv("COLUMNS", "40")
    print_table(table)
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 3
    assert lines[1].endswith("word end")
    assert all(line == line.rstrip() for line in lines)


def test_table_on_a_terminal_is_as_wide_as_the_terminal(table, capsys, monkeypatch):
    """Its cells are folded."""
    monkeypatch.setattr(output, "out", Console(force_terminal=True, width=40))
    print_table(table)
    assert len(capsys.readouterr().out.splitlines()) > 3


EVIL = "\x1b[2J\x1b]52;c;eA==\x07[link=http://evil]click[/link]\x9b31m\u202e"


@pytest.fixture
def terminal(monkeypatch) -> Console:
    """Standard output and error are a wide terminal without colors."""
    made = output.Terminal(force_terminal=True, width=200, no_color=True, highlight=False)
    monkeypatch.setattr(output, "out", made)
    monkeypatch.setattr(output, "err", made)
    return made


def test_text_of_others_has_no_effect_on_a_terminal(terminal, capsys):
    """Neither its control characters nor its markup: in a line, a table, an error, a result."""
    terminal.print(EVIL)
    found = Table(box=None, show_header=False)
    found.add_row(EVIL)
    print_table(found)
    fail(EVIL)
    output.echo(EVIL)
    written = capsys.readouterr().out
    assert written.count(r"\x1b[2J\x1b]52;c;eA==") == 4
    assert written.count("=http://evil]") == 4
    assert "\x1b[2J" not in written
    assert "\x1b]" not in written
    assert "\x9b" not in written
    assert "\u202e" not in written


def test_result_in_a_pipe_is_unchanged(capsys):
    """Another program reads it."""
    output.echo("[b]\x07\u202e")
    assert capsys.readouterr().out == "[b]\x07\u202e\n"


@pytest.mark.parametrize(("encoding", "printed"), [("utf-8", '"\u00e9"'), ("ascii", r'"\u00e9"')])
def test_json_stays_json_where_the_encoding_lacks_letters(encoding, printed, monkeypatch):
    """A program reads it."""
    pipe = io.TextIOWrapper(io.BytesIO(), encoding=encoding)
    monkeypatch.setattr(sys, "stdout", pipe)
    output.echo_json("\u00e9")
    pipe.flush()
    assert pipe.buffer.getvalue().decode(encoding).strip() == printed
