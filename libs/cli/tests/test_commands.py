"""The group of commands that imports a command when it is called."""

from __future__ import annotations

import errno
import sys
import textwrap
from collections.abc import Callable
from typing import Annotated

import pytest
import typer
from typer.core import TyperCommand
from typer.testing import CliRunner

from searchbus_cli.commands import CommandGroup, assigns, help_line, with_output_option

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


MODULE = '''
"""A module that must not be imported."""
import typer
from elsewhere import other as renamed

raise SystemExit("imported")

def greet():
    """Greet somebody.

    More.
    """

async def wave():
    """Wave."""

def silent(): ...

def single():
    "One \\"quoted\\" line."

lines = typer.Typer(help="Two " 'parts.')
app = typer.Typer(help="Several languages.")
plain = typer.Typer()
typed: int = 1
'''


@pytest.fixture(autouse=True)
def package(tmp_path, monkeypatch):
    """unread, with the module in it and a file that is not Python."""
    folder = tmp_path / "unread"
    folder.mkdir()
    (folder / "__init__.py").write_text("SERVICE = 1\n")
    (folder / "hello.py").write_text(MODULE)
    (folder / "torn.py").write_text("def (")
    (tmp_path / "single.py").write_text("SERVICE = 1\n")
    monkeypatch.syspath_prepend(str(tmp_path))


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        ("unread.hello:greet", "Greet somebody."),
        ("unread.hello:wave", "Wave."),
        ("unread.hello:silent", ""),
        ("unread.hello:single", 'One "quoted" line.'),
        ("unread.hello:lines", "Two parts."),
        ("unread.hello:app", "Several languages."),
        ("unread.hello:plain", ""),
        ("unread.hello:missing", ""),
        ("unread.torn:greet", ""),
        ("unread.missing:greet", ""),
        ("no_such_package.module:greet", ""),
    ],
)
def test_help_line_never_fails(target, expected):
    """What cannot be read has an empty line."""
    assert expected == help_line(target)


@pytest.mark.parametrize(
    ("module", "name", "expected"),
    [
        ("unread", "SERVICE", True),
        ("single", "SERVICE", True),
        ("unread.hello", "SERVICE", False),
        ("unread.hello", "typed", True),
        ("unread.hello", "renamed", True),
        ("unread.hello", "other", False),
        ("unread.torn", "SERVICE", False),
        ("no_such_package", "SERVICE", False),
    ],
)
def test_assigned_names_are_found(module, name, expected):
    """By an assignment, an annotation or an import."""
    assert expected == assigns(module, name)


def show(
    name: Annotated[str, typer.Argument(help="Whose.")],
    as_json: Annotated[bool, typer.Option("--json", help="As JSON.")] = False,
) -> None:
    """Show something."""
    typer.echo(f"{name} {as_json}")


@pytest.fixture
def shown():
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
def test_output_is_json_where_one_of_the_two_says_so(shown, arguments, as_json):
    """The flag stays what it was."""
    assert shown(*arguments).stdout == f"it {as_json}\n"


def test_other_format_is_refused(shown):
    """With those there are."""
    done = shown("-o", "yaml")
    assert done.exit_code == 2
    assert "json" in done.stderr


def test_help_keeps_the_texts_of_the_other_options(shown):
    """Their annotations are resolved where the command was written."""
    printed = shown("--help").stdout
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


def fails_by(error: Exception, capsys) -> tuple[int, str]:
    """Exit code and error output of a command that raises."""

    def fails() -> None:
        raise error

    group = CommandGroup(
        name="searchbus", commands={"fails": TyperCommand("fails", callback=fails)}
    )
    return group.main(["fails"], standalone_mode=False), capsys.readouterr().err


def test_an_argument_that_is_not_utf8_is_named(capsys):
    """Python has such bytes as halves of surrogate pairs, which no message can have."""
    with pytest.raises(UnicodeEncodeError) as raised:
        "a\udcff".encode()
    code, said = fails_by(raised.value, capsys)
    assert (code, "error: 'a\\udcff' is not UTF-8." in said) == (2, True)


def test_a_file_that_cannot_be_used_is_an_error_without_a_traceback(capsys):
    """Whichever command opened it."""
    code, said = fails_by(PermissionError(errno.EACCES, "Permission denied", "/srv/x"), capsys)
    assert (code, "error: /srv/x: Permission denied. Correct it, or" in said) == (1, True)


def test_output_on_a_full_disk_is_an_error_without_a_traceback(capsys):
    """Other failures of the system are faults of the program, and keep theirs."""
    code, said = fails_by(OSError(errno.ENOSPC, "No space left on device"), capsys)
    assert (code, "error: No space left on device. Free some" in said) == (1, True)
    with pytest.raises(OSError, match="I/O"):
        fails_by(OSError(errno.EIO, "I/O error"), capsys)
