"""`searchbus init`: its questions, and what it writes."""

from __future__ import annotations

import json
import subprocess
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest

from searchbus_runtime.client_entries import CLIENTS, start_command
from searchbus_testing import SEARCHBUS, Terminal, run_command

pytestmark = pytest.mark.usefixtures("home")


@pytest.fixture
def data(home) -> Path:
    """A data folder that is not there yet."""
    return home / "data"


@pytest.fixture
def ask(home, data) -> Callable[[], Terminal]:
    """Starts the command on a terminal."""
    return lambda: Terminal([SEARCHBUS, "init", "--data", data], environment={"HOME": str(home)})


def entry(data: Path, *, typed: bool = False) -> dict[str, object]:
    """What starts searchbus."""
    return {
        **({"type": "stdio"} if typed else {}),
        "command": str(SEARCHBUS),
        "args": ["stdio", "--data", str(data)],
    }


def test_answers_to_the_questions_are_written(home, data, ask):
    """A wrong answer is asked again; the key is neither shown nor readable by others."""
    cursor = home / ".cursor" / "mcp.json"
    cursor.parent.mkdir()
    cursor.write_text('{"mcpServers": {"files": {"command": "cat"}}}')
    with ask() as terminal:
        terminal.expect("1. Folder of documents")
        terminal.send("/no/such/folder")
        terminal.expect("no such file or folder")
        terminal.send("")
        terminal.expect("2. Provider of web search: brave, tavily")
        terminal.send("google")
        terminal.expect("google is not one of them")
        terminal.send("tavily")
        # The space comes when nothing is shown any more that is typed.
        terminal.expect("Key of tavily: ")
        terminal.send("tvly-secret")
        terminal.expect("Cursor: files")
        terminal.expect("Attach them")
        terminal.send("y")
        terminal.expect("4. Clients that use searchbus")
        terminal.send("vscod")
        terminal.expect("vscode")
        terminal.send("vscode, cursor")
        terminal.expect('"command": ')
        terminal.expect("Write this? [Y/n]")
        assert "searchbus" not in cursor.read_text()
        terminal.send("")
        assert terminal.end() == 0, terminal.shown
    assert "tvly-secret" not in terminal.shown
    config = data / "searchbus.toml"
    assert tomllib.loads(config.read_text())["web"]["tavily_api_keys"] == ["tvly-secret"]
    assert config.stat().st_mode & 0o777 == 0o600
    assert list(tomllib.loads((data / "attach.toml").read_text())["servers"]) == ["files"]
    assert json.loads(cursor.read_text())["mcpServers"]["searchbus"] == entry(data)
    vscode = json.loads((home / ".config" / "Code" / "User" / "mcp.json").read_text())
    assert vscode == {"servers": {"searchbus": entry(data, typed=True)}}


@pytest.mark.parametrize("answer", ["n", "\x03", "\x04"])
def test_nothing_is_written_without_a_yes(home, data, ask, answer):
    """Ctrl-C and Ctrl-D are no yes either."""
    (home / ".cursor").mkdir()
    with ask() as terminal:
        for question in ("1.", "2.", "4."):
            terminal.expect(question)
            terminal.send("")
        terminal.expect("Write this?")
        terminal.send(answer)
        assert terminal.end() != 0
    assert list((home / ".cursor").iterdir()) == []
    assert list(data.iterdir()) == []


def test_used_clients_are_the_proposal(home, data, ask):
    """Enter takes them."""
    (home / ".cursor").mkdir()
    with ask() as terminal:
        for question in ("1.", "2.", "4. "):
            terminal.expect(question)
            terminal.send("")
        terminal.expect("Write this?")
        terminal.send("y")
        assert terminal.end() == 0, terminal.shown
    assert json.loads((home / ".cursor" / "mcp.json").read_text()) == {
        "mcpServers": {"searchbus": entry(data)}
    }


def test_options_answer_without_a_terminal(data, monkeypatch):
    """A second run finds nothing to do."""
    monkeypatch.setattr("sys.argv", [str(SEARCHBUS)])
    options = ["--yes", "--client", "claude-code", "--client", "claude-desktop", "--data", data]
    assert run_command("init", *options).returncode == 0
    for name, typed in (("claude-code", True), ("claude-desktop", False)):
        written = json.loads(CLIENTS[name].path.read_text())
        assert written == {"mcpServers": {"searchbus": entry(data, typed=typed)}}
    again = run_command("init", *options)
    assert again.returncode == 0
    assert again.stdout.count("has the entry already") == 2
    assert not list(CLIENTS["claude-code"].path.parent.glob("*.bak"))


def test_configuration_file_elsewhere_is_written_and_named_in_the_entry(home, data):
    """The client does not know the variable that names it; what else is in the file stays."""
    config = home / "mine.toml"
    config.write_text(
        '# mine\n[web]\n# my key\nbrave_api_keys = [\n  "old",\n]\nextract_processes = 3  # why\n'
    )
    options = ["--yes", "--client", "cursor", "--web-key", "brave", "--config", config]
    done = subprocess.run(
        [SEARCHBUS, "init", "--data", data, *options], input="the-key\n", text=True,
        capture_output=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "the-key" not in done.stdout + done.stderr
    assert config.read_text() == (
        '# mine\n[web]\n# my key\nbrave_api_keys = ["the-key"]\nextract_processes = 3  # why\n'
    )
    assert config.stat().st_mode & 0o777 == 0o600
    servers = json.loads((home / ".cursor" / "mcp.json").read_text())["mcpServers"]
    assert servers["searchbus"]["args"][-2:] == ["--config", str(config)]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "no terminal to ask on"),
        (["--client", "cursor"], "no terminal to ask on"),
        (["--yes"], "sets nothing up"),
        (["--yes", "--client", "cursr"], "cursor"),
        (["--yes", "--documents", "/no/such/folder"], "no such file or folder"),
        (["--yes", "--documents", "/tmp/" + "a" * 300], "no such file or folder"),
        (["--yes", "--web-key", "tavil"], "tavily"),
        (["--yes", "--web-key", "tavily"], "is empty"),
    ],
)
def test_wrong_options_are_refused_before_anything_is_written(home, data, arguments, message):
    """Each with what to do."""
    done = run_command("init", "--data", data, *arguments)
    assert done.returncode == 2
    assert message in " ".join(done.stderr.split())
    assert list(home.rglob("*.json")) == []
    assert list(home.rglob("*.toml")) == []


@pytest.mark.parametrize(
    ("file", "text", "message"),
    [
        (".cursor/mcp.json", "{\n  broken\n}", "line 2, column 3"),
        ("data/searchbus.toml", "[web\n", "searchbus.toml"),
    ],
)
def test_damaged_file_is_named_and_stays(home, data, file, text, message):
    """With its line; the other client is not changed either."""
    (home / file).parent.mkdir()
    (home / file).write_text(text)
    options = ["--yes", "--client", "vscode", "--client", "cursor"]
    done = run_command("init", "--data", data, *options)
    assert done.returncode != 0
    assert message in done.stderr
    assert (home / file).read_text() == text
    assert not CLIENTS["vscode"].path.exists()


def test_command_in_a_cache_is_warned_of(home, data, monkeypatch):
    """uvx starts one that may be gone tomorrow."""
    passing = home / "uv" / "archive-v0" / "x" / "bin" / "searchbus"
    passing.parent.mkdir(parents=True)
    passing.touch()
    monkeypatch.setattr("sys.argv", [str(passing)])
    assert start_command(data)[0] == str(passing)
    done = run_command("init", "--yes", "--client", "cursor", "--data", data)
    assert "uv tool install" in done.stderr
