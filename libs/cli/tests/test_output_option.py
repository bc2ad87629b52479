"""`-o json` beside the flag that commands have."""

from __future__ import annotations

from typing import Annotated

import pytest
import typer
from typer.testing import CliRunner

from searchbus_cli.output_option import with_output_option


def show(
    name: Annotated[str, typer.Argument(help="Whose.")],
    as_json: Annotated[bool, typer.Option("--json", help="As JSON.")] = False,
) -> None:
    """Show something."""
    typer.echo(f"{name} {as_json}")


@pytest.fixture
def run():
    """Runs the command; returns what it printed."""
    app = typer.Typer()
    app.command()(with_output_option(show))

    def invoke(*arguments: str):
        return CliRunner().invoke(app, ["it", *arguments])

    return invoke


@pytest.mark.parametrize(
    ("arguments", "as_json"),
    [
        ((), False),
        (("--json",), True),
        (("-o", "json"), True),
        (("--output", "json"), True),
        (("-o", "table"), False),
        (("--json", "-o", "table"), True),
    ],
)
def test_output_is_json_where_one_of_the_two_says_so(run, arguments, as_json):
    """The flag stays what it was."""
    assert run(*arguments).stdout == f"it {as_json}\n"


def test_other_format_is_refused(run):
    """With those there are."""
    done = run("-o", "yaml")
    assert done.exit_code == 2
    assert "json" in done.stderr


def test_help_keeps_the_texts_of_the_other_options(run):
    """Their annotations are resolved where the command was written."""
    printed = run("--help").stdout
    for text in ("Whose.", "As JSON.", "--output"):
        assert text in printed


def test_command_without_data_has_no_such_option():
    """It is the same function."""

    def plain() -> None:
        pass

    assert with_output_option(plain) is plain


def test_a_command_that_has_the_option_keeps_it():
    """A group of commands may be loaded twice in one process."""

    def command(as_json: bool = False) -> None:
        """Print."""

    once = with_output_option(command)
    assert with_output_option(once) is once
