"""searchbus's entry in the settings of clients."""

from __future__ import annotations

import errno
import json
import os
import sys
from pathlib import Path

import pytest

from searchbus_cli.clients import ClientFileError, FileChange, planned_entry, planned_removal
from searchbus_runtime.client_entries import CLIENTS, Client, command_entry, start_command
from searchbus_runtime.jsonc import parse
from searchbus_testing import SEARCHBUS

pytestmark = pytest.mark.usefixtures("home")
COMMAND = ["/opt/searchbus", "stdio", "--data", "/srv/data"]
ENTRY = {"command": "/opt/searchbus", "args": ["stdio", "--data", "/srv/data"]}
TYPED = {"type": "stdio", **ENTRY}


def planned(client: Client, command: list[str] = COMMAND) -> FileChange:
    return planned_entry(client, command_entry(client, command))


def settings(name: str, content: str | bytes) -> Path:
    """A client's file with this content."""
    path = CLIENTS[name].path
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


@pytest.mark.parametrize(
    ("platform", "name", "path"),
    [
        ("linux", "claude-desktop", ".config/Claude/claude_desktop_config.json"),
        ("linux", "claude-code", ".claude.json"),
        ("linux", "cursor", ".cursor/mcp.json"),
        ("linux", "vscode", ".config/Code/User/mcp.json"),
        (
            "darwin", "claude-desktop",
            "Library/Application Support/Claude/claude_desktop_config.json",
        ),
        ("darwin", "claude-code", ".claude.json"),
        ("darwin", "cursor", ".cursor/mcp.json"),
        ("darwin", "vscode", "Library/Application Support/Code/User/mcp.json"),
        ("win32", "claude-desktop", "AppData/Roaming/Claude/claude_desktop_config.json"),
        ("win32", "vscode", "AppData/Roaming/Code/User/mcp.json"),
    ],
)  # fmt: skip
def test_files_are_where_the_clients_look(home, monkeypatch, platform, name, path):
    """As their documentation says for each system."""
    monkeypatch.setattr(sys, "platform", platform)
    assert home / path == CLIENTS[name].path


def test_folders_of_the_environment_count(home, monkeypatch):
    """A person may have moved them."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(home / "xdg"))
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(home / "claude"))
    assert home / "xdg" / "Code" / "User" / "mcp.json" == CLIENTS["vscode"].path
    assert home / "claude" / ".claude.json" == CLIENTS["claude-code"].path


def test_client_is_used_where_it_has_settings(home):
    """The home itself is no sign of Claude Code."""
    assert not any(client.is_used for client in CLIENTS.values())
    settings("claude-code", "{}")
    settings("vscode", "{}")
    assert [name for name, client in CLIENTS.items() if client.is_used] == ["claude-code", "vscode"]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("claude-desktop", {"mcpServers": {"searchbus": ENTRY}}),
        ("claude-code", {"mcpServers": {"searchbus": TYPED}}),
        ("cursor", {"mcpServers": {"searchbus": ENTRY}}),
        ("vscode", {"servers": {"searchbus": TYPED}}),
    ],
)
@pytest.mark.parametrize("present", [None, "", "{}"])
def test_entry_has_the_form_of_its_client(name, expected, present):
    """Also in a file that is empty, or not there; then only its owner can read it."""
    client = CLIENTS[name]
    if present is not None:
        settings(name, present)
    change = planned(client)
    assert change.is_needed
    backup = change.write()
    assert json.loads(client.path.read_text()) == expected
    assert (backup is None) == (present is None)
    assert present is not None or client.path.stat().st_mode & 0o777 == 0o600
    assert not planned(client).is_needed


def test_comments_other_servers_and_permissions_stay():
    """And what was there is beside it, with the same permissions."""
    text = '{\n  // mine\n  "servers": {\n    "files": {"command": "cat"}, // all\n  },\n}\n'
    path = settings("vscode", text)
    path.chmod(0o640)
    change = planned(CLIENTS["vscode"])
    backup = change.write()
    written = path.read_text()
    assert parse(written) == {"servers": {"files": {"command": "cat"}, "searchbus": TYPED}}
    assert "// mine" in written
    assert "// all" in written
    assert backup is not None
    assert backup.read_text() == text
    assert (path.stat().st_mode & 0o777, backup.stat().st_mode & 0o777) == (0o640, 0o640)


@pytest.mark.parametrize("indent", [None, 2])
def test_diff_shows_no_text_of_another_server(indent):
    """A file may be one line; an entry of our own may have keys, too."""
    content = {
        "mcpServers": {
            "a": {"env": {"KEY": "secret"}},
            "searchbus": {"url": "http://127.0.0.1:1", "env": {"K": "secret"}},
        }
    }
    path = settings("cursor", json.dumps(content, indent=indent))
    shown = "\n".join(planned(CLIENTS["cursor"]).diff())
    assert "secret" not in shown
    assert '"/opt/searchbus"' in shown
    assert str(path) in shown


@pytest.mark.parametrize(
    ("name", "entry"),
    [
        ("searchbus", {"command": "/old/searchbus", "args": ["stdio"]}),
        ("searchbus", {"url": "http://127.0.0.1:8080/mcp", "headers": {"A": "b"}}),
        ("my search", {"command": "/old/bin/searchbus", "args": ["stdio", "--toolset", "fomc"]}),
    ],
)
def test_present_entry_is_changed_and_never_doubled(name, entry):
    """Whatever its name; keys that do not say how it is started stay."""
    path = settings("cursor", json.dumps({"mcpServers": {name: {**entry, "env": {"K": "v"}}}}))
    planned(CLIENTS["cursor"]).write()
    assert json.loads(path.read_text()) == {"mcpServers": {name: {**ENTRY, "env": {"K": "v"}}}}


def test_link_stays_a_link(home):
    """A person may keep all settings in one folder."""
    kept = home / "dotfiles.json"
    kept.write_text("{}")
    path = CLIENTS["cursor"].path
    path.parent.mkdir()
    path.symlink_to(kept)
    planned(CLIENTS["cursor"]).write()
    assert path.is_symlink()
    assert json.loads(kept.read_text()) == {"mcpServers": {"searchbus": ENTRY}}


def test_second_change_keeps_the_first_backup():
    """What was there before searchbus is never lost."""
    path = settings("cursor", '{"a": 1}')
    assert planned(CLIENTS["cursor"]).write() == path.with_name("mcp.json.bak")
    other = planned(CLIENTS["cursor"], ["/new", "stdio"]).write()
    assert other == path.with_name("mcp.json.bak1")
    assert path.with_name("mcp.json.bak").read_text() == '{"a": 1}'


def test_signature_of_windows_stays():
    """Its editors write one before the text."""
    path = settings("cursor", b'\xef\xbb\xbf{"a": 1}\r\n')
    planned(CLIENTS["cursor"]).write()
    assert path.read_bytes().startswith(b'\xef\xbb\xbf{"a": 1,\r\n')


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ('{\n  "mcpServers": {\n', "line 3, column 1"),
        ("{\n}\n}", "line 3, column 1"),
        ("[]", "not an object"),
        ('{"mcpServers": []}', "not an object"),
        (b'{"a": "\xff"}', "not UTF-8"),
    ],
)
def test_file_that_is_not_json_is_refused_and_stays(content, message):
    """With the place of the mistake."""
    path = settings("cursor", content)
    before = path.read_bytes()
    with pytest.raises(ClientFileError, match=message) as raised:
        planned(CLIENTS["cursor"])
    assert str(path) in str(raised.value)
    assert path.read_bytes() == before


def test_file_that_changed_after_it_was_shown_is_refused():
    """Claude Code writes its own at any moment."""
    path = settings("claude-code", "{}")
    change = planned(CLIENTS["claude-code"])
    path.write_text('{"new": 1}')
    with pytest.raises(ClientFileError, match="changed meanwhile"):
        change.write()
    assert path.read_text() == '{"new": 1}'


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everything")
def test_read_only_file_is_refused():
    """A person made it so."""
    path = settings("cursor", "{}")
    path.chmod(0o400)
    with pytest.raises(ClientFileError, match="read-only"):
        planned(CLIENTS["cursor"]).write()


def test_full_disk_leaves_the_file_and_no_half_a_backup(monkeypatch):
    """The backup is the first that needs space."""
    path = settings("cursor", '{"a": 1}')
    change = planned(CLIENTS["cursor"])

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("shutil.copymode", full)
    with pytest.raises(ClientFileError, match="No space left"):
        change.write()
    assert [(found.name, found.read_text()) for found in path.parent.iterdir()] == [
        ("mcp.json", '{"a": 1}')
    ]


def test_folder_in_the_place_of_the_file_is_refused():
    """With what the system says."""
    CLIENTS["cursor"].path.mkdir(parents=True)
    with pytest.raises(ClientFileError, match="cannot be read"):
        planned(CLIENTS["cursor"])


def test_removal_takes_every_entry_of_searchbus():
    """And changes nothing where there is no such entry, or no file."""
    client = CLIENTS["cursor"]
    assert not planned_removal(client).is_needed
    path = settings("cursor", json.dumps({"mcpServers": {"files": {"command": "cat"}}}))
    assert not planned_removal(client).is_needed
    planned(client).write()
    planned_removal(client).write()
    assert json.loads(path.read_text()) == {"mcpServers": {"files": {"command": "cat"}}}


def test_command_is_absolute_and_names_the_folder(tmp_path, monkeypatch):
    """A client has another search path, and another environment."""
    monkeypatch.setattr(sys, "argv", ["-c"])
    monkeypatch.setenv("PATH", str(Path(SEARCHBUS).parent))
    assert start_command(tmp_path) == [str(SEARCHBUS), "stdio", "--data", str(tmp_path)]
    monkeypatch.setenv("PATH", "")
    assert start_command(tmp_path)[:4] == [sys.executable, "-P", "-m", "searchbus_cli"]


def test_link_to_the_command_is_named_and_not_what_it_leads_to(tmp_path, monkeypatch):
    """An installer of tools replaces what is behind its links."""
    link = tmp_path / "searchbus"
    link.symlink_to(SEARCHBUS)
    monkeypatch.setattr(sys, "argv", [str(link), "init"])
    assert start_command(tmp_path)[0] == str(link)
