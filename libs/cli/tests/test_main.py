"""The whole command line: which commands there are, and what `--help` costs."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from typer.main import get_command

from searchbus_cli.commands import FLAG, CommandGroup
from searchbus_cli.main import COMMANDS, PANELS, app
from searchbus_contracts import VERSION
from searchbus_testing import run_command

# The names are those of modules; a longer name below one of them counts too.
EXPENSIVE = (
    "fastembed", "httpx", "mcp", "mcp_types", "msgspec", "nats", "nkeys", "numpy", "onnxruntime",
    "opentelemetry", "prometheus_client", "pydantic", "pydantic_settings", "qdrant_client",
    "qdrant_edge", "searchbus_bus", "searchbus_edge", "searchbus_retrieval", "searchbus_toolindex",
    "searchbus_vectors", "uvicorn",
)  # fmt: skip
SLOW_TO_PRINT = {"rich", "typer.rich_utils"}
TYPER = ("pydantic",)
"""What Typer itself imports to convert arguments."""
PROGRAM = """
import json, sys
from searchbus_cli.main import main
sys.argv = ["searchbus", *json.loads(sys.argv[1])]
try:
    main()
except SystemExit:
    pass
sys.stderr.write("\\n" + json.dumps(sorted(sys.modules)))
"""


def imported_by(*arguments: str, **environment: str) -> tuple[str, list[str]]:
    """What a run printed, and the modules that it imported."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, json.dumps(arguments)], capture_output=True, text=True,
        timeout=120, check=True, env={**os.environ, **environment},
    )  # fmt: skip
    return done.stdout, json.loads(done.stderr.splitlines()[-1])


def expensive(modules: list[str], *but: str) -> list[str]:
    """The expensive ones among the modules, by the first part of the name."""
    return sorted({m.partition(".")[0] for m in modules}.intersection(EXPENSIVE) - {*but})


def test_help_imports_no_library_of_a_command():
    """Imports are what makes a command slow: 2.2 s of them were nearly all of `--help`."""
    printed, modules = imported_by("--help")
    for name in ("up", "tools", "trace", "doctor", "nats-config", "ingest", "search", "stdio"):
        assert name in printed
    assert expensive(modules) == []
    assert not SLOW_TO_PRINT.intersection(modules)


@pytest.mark.parametrize("arguments", [("--version",), ("tools", "--help"), ("attach", "--help")])
def test_other_pages_of_help_import_no_more(arguments):
    """A group of another package imports its commands, and msgspec, by which they are written."""
    _, modules = imported_by(*arguments)
    assert expensive(modules, "msgspec") == []
    assert not SLOW_TO_PRINT.intersection(modules)


@pytest.mark.parametrize("words", ["", "tools ", "att", "--"])
def test_completion_of_commands_imports_none(words):
    """A person waits for it at each key."""
    environment = {"COMP_WORDS": f"searchbus {words}", "COMP_CWORD": str(words.count(" ") + 1)}
    printed, modules = imported_by(_SEARCHBUS_COMPLETE="complete_bash", **environment)
    assert printed
    assert expensive(modules) == []
    assert "rich" not in modules


def test_completion_of_a_name_converts_no_value():
    """Typer imports Pydantic for it, which takes as long as all the rest."""
    environment = {"COMP_WORDS": "searchbus tools call --data x sea", "COMP_CWORD": "5"}
    _, modules = imported_by(_SEARCHBUS_COMPLETE="complete_bash", **environment)
    assert "searchbus_cli.tools" in modules
    assert expensive(modules) == []


def test_help_has_panels_and_every_command_of_this_repository_is_in_one():
    """Those of other packages are in a panel of their own."""
    printed, _ = imported_by("--help")
    titles = re.findall(r"^╭─ (.*?) ─+╮$", printed, re.MULTILINE)
    assert titles == ["Options", *PANELS]


def test_letters_that_an_encoding_lacks_are_escaped():
    """A locale of one byte a letter costs no search its hits."""
    code = "from searchbus_cli import main; main.app = lambda **_: print('a › b'); main.main()"
    environment = {**os.environ, "PYTHONIOENCODING": "latin-1"}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, check=True
    )
    assert done.stdout == b"a \\u203a b\n"


def test_version_is_printed():
    """The one of all packages."""
    done = run_command("--version")
    assert (done.returncode, done.stdout) == (0, f"searchbus {VERSION}\n")


@pytest.mark.parametrize(
    "command",
    ["tools list", "tools call", "tools search", "tools bench", "trace", "doctor", "ingest",
     "search", "keys list"],
)  # fmt: skip
def test_every_command_that_prints_data_takes_o_json(command):
    """Whichever package it comes from."""
    assert "--output" in run_command(*command.split(), "--help").stdout


def test_commands_against_a_running_stack_import_no_more_than_completion(tmp_path):
    """`tools list` speaks HTTP by the standard library; it needs no bus, settings or telemetry."""
    _, modules = imported_by("tools", "list", "--data", str(tmp_path))
    assert expensive(modules, "msgspec", *TYPER) == []


def test_trace_reads_its_file_without_telemetry(tmp_path):
    """The file is JSON."""
    _, modules = imported_by("trace", "--data", str(tmp_path))
    assert expensive(modules, "msgspec", *TYPER) == []


def test_stack_without_keys_needs_no_http_client_and_no_keys():
    """`searchbus up` imports it while the services wait to be started."""
    done = subprocess.run(
        [sys.executable, "-c", "import searchbus_cli.stack, sys; print(*sys.modules)"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert expensive(done.stdout.split(), "msgspec") == []


def test_every_command_has_a_help_line_and_an_example(capsys):
    """The line is shown in the help of its group, the example in the command's own."""
    root = get_command(app)
    assert isinstance(root, CommandGroup)
    for group in (root, root.commands["tools"]):
        for name, command in group.commands.items():
            assert command.help, name
    for name in COMMANDS:
        with pytest.raises(SystemExit, match="0"):
            root([*name.split("."), "--help"])
        printed = " ".join(capsys.readouterr().out.split())
        assert f"Example: searchbus {name.replace('.', ' ')}" in printed


def test_help_of_options_has_no_brackets():
    """They would be markup, and what stands in them would not be shown."""
    commands = list(_loaded(get_command(app)))
    assert len(commands) > 20
    for command in commands:
        for parameter in command.params:
            text = getattr(parameter, "help", None) or ""
            assert "[" not in text, f"{command.name} {parameter.name}"


def test_every_command_with_a_flag_for_json_has_the_option_too():
    """Also those of a group in a group, such as `searchbus attach view`."""
    for command in _loaded(get_command(app)):
        names = {parameter.name for parameter in command.params}
        assert FLAG not in names or "output" in names, command.name


def _loaded(group: Any) -> Iterator[Any]:
    """Every command, imported."""
    for command in group.commands.values():
        found = command.load() if hasattr(command, "load") else command
        if hasattr(found, "commands"):
            yield from _loaded(found)
        else:
            yield found
