"""`searchbus connect`: what it shows, writes and refuses, and how it tries an entry."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from searchbus_cli.clients import planned_entry
from searchbus_cli.connect import try_entry
from searchbus_cli.mcp_client import McpError
from searchbus_runtime.client_entries import CLIENTS, address_entry
from searchbus_testing import run_command

pytestmark = pytest.mark.usefixtures("home")
_SERVER = """
import json, sys
for line in sys.stdin:
    message = json.loads(line)
    if "id" not in message:
        continue
    if message["method"] == "initialize":
        result = {"serverInfo": {"name": "fake", "version": "1"}, "protocolVersion": "2025-06-18"}
        print(json.dumps({"jsonrpc": "2.0", "method": "notifications/message"}), flush=True)
    elif "cursor" in message["params"]:
        result = {"tools": [{"name": "b"}]}
    else:
        result = {"tools": [{"name": "a"}], "nextCursor": "x"}
    print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}), flush=True)
"""


def test_print_only_shows(home):
    """The lines with the toolset; no file and no folder is made."""
    done = run_command("connect", "claude", "--toolset", "web", "--print", "--data", home / "data")
    assert done.returncode == 0, done.stderr
    assert f'"{home / "data"}"' in done.stdout
    assert '"web"' in done.stdout
    assert not (home / ".claude.json").exists()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["cursr", "--yes"], "cursor"),
        (["cursor"], "no terminal to ask on"),
        (["claude-desktop", "--url", "https://a.example/mcp", "--yes"], "only starts commands"),
        (["cursor", "--url", "a.example", "--yes"], "Write it like https://"),
        (["cursor", "--url", "http://[/mcp", "--yes"], "Write it like https://"),
        (["cursor", "--url", "http://a:x/mcp", "--yes"], "Write it like https://"),
        (["cursor", "--url", "https://u:secret@a.example", "--yes"], "Write it like https://"),
    ],
)
def test_what_cannot_be_done_is_said_with_the_remedy(home, options, message):
    """And nothing is written."""
    done = run_command("connect", *options, "--data", home / "data")
    assert done.returncode == 2
    assert message in done.stderr
    assert not (home / ".cursor").exists()


def test_broken_file_is_named_with_its_line_and_stays(home):
    """The client would not read it either."""
    path = home / ".cursor" / "mcp.json"
    path.parent.mkdir()
    path.write_text('{\n  "mcpServers": {\n')
    done = run_command("connect", "cursor", "--yes", "--data", home / "data")
    assert done.returncode == 1
    assert str(path) in done.stderr
    assert "line 3" in done.stderr
    assert path.read_text() == '{\n  "mcpServers": {\n'


def test_address_that_does_not_answer_is_named(home):
    """The entry is written; who reads the message knows what to do next."""
    url = "http://127.0.0.1:9"
    done = run_command("connect", "vscode", "--url", url, "--toolset", "web", "--yes")
    assert done.returncode == 1
    assert f"{url}/mcp/web does not answer" in done.stderr
    written = json.loads((home / ".config" / "Code" / "User" / "mcp.json").read_text())
    assert written == {"servers": {"searchbus": {"type": "http", "url": f"{url}/mcp/web"}}}


def test_address_replaces_the_command_and_keeps_the_rest():
    """Headers of a person stay; the key is not shown."""
    path = CLIENTS["cursor"].path
    path.parent.mkdir()
    present = {"command": "/old/searchbus", "args": ["stdio"], "env": {"A": "b"}}
    path.write_text(json.dumps({"mcpServers": {"files": {"url": "x"}, "mine": present}}))
    client = CLIENTS["cursor"]
    change = planned_entry(client, address_entry(client, "https://a.example/mcp", "sbk_secret"))
    assert "sbk_secret" not in "\n".join(change.diff())
    change.write()
    entry = {
        "env": {"A": "b"}, "url": "https://a.example/mcp",
        "headers": {"Authorization": "Bearer sbk_secret"},
    }  # fmt: skip
    assert json.loads(path.read_text()) == {"mcpServers": {"files": {"url": "x"}, "mine": entry}}
    path.write_text(json.dumps({"mcpServers": {"searchbus": {**entry, "headers": {"X": "y"}}}}))
    planned_entry(client, address_entry(client, "https://b.example/mcp")).write()
    written = json.loads(path.read_text())["mcpServers"]["searchbus"]
    assert written == {**entry, "url": "https://b.example/mcp", "headers": {"X": "y"}}


def test_entry_is_tried_as_a_client_uses_it(tmp_path):
    """A handshake, and every page of the tools; notifications between them are passed over."""
    program = tmp_path / "server.py"
    program.write_text(_SERVER)
    assert try_entry({"command": sys.executable, "args": [str(program)]}) == ("fake 1", 2)


def test_command_that_ended_before_it_was_asked_is_told(monkeypatch):
    """Its input is closed then: nothing can be written."""

    def ended(*arguments, **options):
        process = popen(*arguments, **options)
        process.wait()
        return process

    popen = subprocess.Popen
    monkeypatch.setattr(subprocess, "Popen", ended)
    with pytest.raises(McpError, match=r"it ended\. It printed: no stack here"):
        try_entry({"command": sys.executable, "args": ["-c", "exit('error: no stack here')"]})


@pytest.mark.parametrize(
    ("program", "message"),
    [
        ("import sys; sys.exit('error: no stack here')", "no stack here"),
        ("print('hello', flush=True); input(); input()", "not JSON"),
    ],
)
def test_command_that_does_not_answer_is_told_with_what_it_printed(program, message):
    """A client would only say that the server failed."""
    with pytest.raises(McpError, match=message):
        try_entry({"command": sys.executable, "args": ["-c", program]})
    with pytest.raises(McpError, match="cannot be started"):
        try_entry({"command": "/no/such/command"})
