"""What a module's source says, without importing it."""

from __future__ import annotations

import pytest

from searchbus_cli.source import assigns, help_line

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

app = typer.Typer(help="Several languages.")
plain = typer.Typer()
typed: int = 1
'''


@pytest.fixture(autouse=True)
def package(tmp_path, monkeypatch):
    """third_party, with the module in it and a file that is not Python."""
    folder = tmp_path / "third_party"
    folder.mkdir()
    (folder / "__init__.py").write_text("SERVICE = 1\n")
    (folder / "hello.py").write_text(MODULE)
    (folder / "torn.py").write_text("def (")
    (tmp_path / "single.py").write_text("SERVICE = 1\n")
    monkeypatch.syspath_prepend(str(tmp_path))


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        ("third_party.hello:greet", "Greet somebody."),
        ("third_party.hello:wave", "Wave."),
        ("third_party.hello:silent", ""),
        ("third_party.hello:app", "Several languages."),
        ("third_party.hello:plain", ""),
        ("third_party.hello:missing", ""),
        ("third_party.torn:greet", ""),
        ("third_party.missing:greet", ""),
        ("no_such_package.module:greet", ""),
    ],
)
def test_help_line_never_fails(target, expected):
    """What cannot be read has an empty line."""
    assert expected == help_line(target)


@pytest.mark.parametrize(
    ("module", "name", "expected"),
    [
        ("third_party", "SERVICE", True),
        ("single", "SERVICE", True),
        ("third_party.hello", "SERVICE", False),
        ("third_party.hello", "typed", True),
        ("third_party.hello", "renamed", True),
        ("third_party.hello", "other", False),
        ("third_party.torn", "SERVICE", False),
        ("no_such_package", "SERVICE", False),
    ],
)
def test_assigned_names_are_found(module, name, expected):
    """By an assignment, an annotation or an import."""
    assert expected == assigns(module, name)
