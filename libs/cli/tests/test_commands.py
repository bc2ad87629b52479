"""The group of commands that imports a command when it is called."""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Callable

import pytest

from searchbus_cli.commands import CommandGroup

Run = Callable[..., tuple[int, str]]

HELLO = '''
    """A module with commands."""
    import typer

    def greet(name: str, loud: bool = False) -> None:
        """Greet somebody.

        The name is written
        as it is given.

            greet Ada
            greet Bob
        """
        typer.echo(f"Hello {name}" + "!" * loud)

    def silent() -> None:
        pass

    def faulty() -> None:
        from searchbus_contracts import ErrorCode, Fault

        raise Fault(ErrorCode.UNAVAILABLE, "Start it: [searchbus up]")

    tongues = typer.Typer(help="Several languages.", no_args_is_help=True)

    @tongues.command("french")
    def french() -> None:
        """Greet in French."""
        typer.echo("Bonjour")
'''


@pytest.fixture
def group(tmp_path, monkeypatch) -> CommandGroup:
    """Commands of a package that is not imported yet."""
    package = tmp_path / "third_party"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "hello.py").write_text(textwrap.dedent(HELLO))
    (package / "broken.py").write_text('import no_such_module\n\ndef run():\n    """Run."""\n')
    monkeypatch.syspath_prepend(str(tmp_path))
    for name in ("third_party", "third_party.hello", "third_party.broken"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    group = CommandGroup(name="all", no_args_is_help=True)
    group.add_targets(
        {
            "greet": "third_party.hello:greet",
            "tongues": "third_party.hello:tongues",
            "broken": "third_party.broken:run",
            "gone": "third_party.hello:gone",
            "faulty": "third_party.hello:faulty",
        }
    )
    return group


@pytest.fixture
def run(group, capsys) -> Run:
    """Runs the group in process; returns the exit code and all that was printed."""

    def run(*arguments: str) -> tuple[int, str]:
        with pytest.raises(SystemExit) as end:
            group(list(arguments))
        printed = capsys.readouterr()
        return int(end.value.code or 0), printed.out + printed.err

    return run


def test_help_shows_each_docstring_and_imports_nothing(run):
    """The first line of a function's docstring, the `help` of a Typer."""
    code, printed = run("--help")
    assert code == 0
    for text in ("Greet somebody.", "Several languages.", "Run."):
        assert text in printed
    assert "third_party.hello" not in sys.modules


def test_paragraphs_of_a_docstring_break_where_the_terminal_ends(run):
    """Indented ones keep their lines."""
    lines = [line.strip() for line in run("greet", "--help")[1].splitlines()]
    assert {"The name is written as it is given.", "greet Ada", "greet Bob"} <= set(lines)


def test_called_command_is_imported_and_run(run):
    """With the options of its signature."""
    assert run("greet", "Ada", "--loud") == (0, "Hello Ada!\n")


def test_typer_becomes_a_group_of_its_own(run):
    """Without the options of Typer's completion, which the root has."""
    assert run("tongues", "french") == (0, "Bonjour\n")
    assert "--install-completion" not in run("tongues", "--help")[1]


@pytest.mark.parametrize(
    ("name", "reason"), [("broken", "no_such_module"), ("gone", "has no attribute 'gone'")]
)
def test_broken_package_harms_its_own_command_only(run, name, reason):
    """The others work; its own says which package to install again."""
    assert run("greet", "Ada")[0] == 0
    code, printed = run(name)
    assert code == 1
    words = " ".join(printed.split())
    assert reason in words
    assert "Install third-party again." in words


def test_unknown_command_gets_a_suggestion(run):
    """Commands that are not imported count."""
    code, printed = run("great")
    assert code == 2
    assert "'greet'" in printed


def test_name_that_is_taken_keeps_its_command(group, run):
    """A package cannot replace a command."""
    group.add_targets({"greet": "third_party.hello:silent"})
    assert run("greet", "Ada") == (0, "Hello Ada\n")


def test_fault_of_a_command_is_a_message_and_not_a_traceback(run):
    """With its code, for those who search for it."""
    assert run("faulty") == (1, "error: unavailable: Start it: [searchbus up]\n")
