"""What commands show of a server."""

from __future__ import annotations

from searchbus_attach.commands.status import (
    ask_status,
    masked,
    notices,
    shown_selection,
    shown_server,
    table,
)
from searchbus_attach.declare.attach_file import Declared
from searchbus_attach.declare.servers import parse_server
from searchbus_attach.declare.views import parse_selection
from searchbus_contracts.attach import AttachedServer, AttachedView, StatusReply


def test_values_that_may_be_secret_are_not_shown():
    """A reference to one is."""
    local = parse_server(
        "a", {"command": "x", "env": {"A": "word", "B": "${B}", "C": "${A}word${B}"}}
    )
    assert masked(local)["env"] == {"A": "***", "B": "${B}", "C": "***"}
    far = parse_server(
        "b", {"url": "https://u:p@x.example/mcp?key=word", "headers": {"A": "Bearer ${T} x"}}
    )
    assert (masked(far)["url"], masked(far)["headers"]) == ("https://x.example/mcp", {"A": "***"})


def test_without_a_stack_there_is_no_status(tmp_path, monkeypatch):
    """And no error."""
    monkeypatch.delenv("SEARCHBUS_NATS_URL", raising=False)
    assert ask_status(tmp_path) is None


def test_the_table_says_what_is_to_be_looked_at():
    """And nothing of what is as usual."""
    assert list(table(Declared(), None)) == []
    off = parse_server("off", {"command": "x", "enabled": False})
    declared = Declared(
        {"files": parse_server("files", {"command": "/usr/bin/npx"}), "off": off},
        selections={"reading": parse_selection("reading", {"allow": ["*"]})},
    )
    found = AttachedServer(name="files", state="up", target="npx", tools=7)
    views = (AttachedView(name="reading", tools=("a",)),)
    assert list(table(declared, StatusReply(servers=(found,), views=views))) == [
        "server   state     target  offers",
        "files    up        npx     7 tools",
        "off      disabled  x",
        "reading  up        a view  1 tool",
    ]
    away = AttachedServer(
        name="files", state="down", target="npx", tools=7, held=2, stale=True, problem="it\nended",
        view_problems=("a",),
    )  # fmt: skip
    assert list(table(declared, StatusReply(servers=(away,))))[:2] == [
        "server   state        target  offers                                     problem",
        "files    down         npx     7 tools, 2 changed, 1 view problem, stale  it\\nended",
    ]


def test_what_is_to_be_done_is_named(tmp_path, monkeypatch):
    """With the command that does it."""
    monkeypatch.delenv("SEARCHBUS_NATS_URL", raising=False)
    declared = Declared({"files": parse_server("files", {"command": "x"})})
    assert "attach add" in " ".join(notices(Declared(), None, tmp_path))
    (line,) = notices(declared, None, tmp_path)
    assert "Start one: searchbus up" in line
    found = AttachedServer(name="files", state="up", target="npx", held=2, refused=5_000)
    status = StatusReply(servers=(found,), file_problem="it is not TOML", unconfined="no Landlock")
    assert list(notices(declared, status, tmp_path)) == [
        "warning: it is not TOML",
        "warning: commands can reach what searchbus can: no Landlock",
        "definitions of files changed; see: searchbus attach diff files",
        "5000 of what files offers cannot be listed; why: searchbus attach show files",
    ]
    monkeypatch.setenv("SEARCHBUS_NATS_URL", "nats://127.0.0.1:1")
    assert "The service attach does not run" in " ".join(notices(declared, None, tmp_path))


def test_a_server_is_shown_as_one_writes_it():
    """Without Python, and without what is empty."""
    keys = {
        "command": "x",
        "args": ["-y", "a b"],
        "env": {"A": "word"},
        "idle_s": 5,
        "enabled": False,
    }
    server = parse_server("files", keys)
    found = AttachedServer(name="files", state="up", target="x", protocol="2025-06-18")
    assert list(shown_server(server, {"deny": ["rm"]}, found)) == [
        "name: files",
        "command: x",
        "args: -y 'a b'",
        "env: A=***",
        "enabled: false",
        "idle_s: 5.0",
        'view.deny: ["rm"]',
        "state: up",
        "protocol: 2025-06-18",
        "restarts: 0",
        "dropped: 0",
        "in_flight: 0",
    ]
    assert list(shown_server(server, {}, None))[-1] == "state: disabled"


def test_a_view_of_several_servers_is_shown_with_its_tools():
    """Those that are listed now."""
    selection = parse_selection("reading", {"allow": ["files__*"]})
    status = StatusReply(views=(AttachedView(name="reading", tools=("files__read", "files__ls")),))
    assert shown_selection(selection, status, as_json=False).splitlines()[-3:] == [
        "tools: 2", "  files__read", "  files__ls",
    ]  # fmt: skip
    assert '"tools": ["files__read", "files__ls"]' in shown_selection(
        selection, status, as_json=True
    )


def test_faulty_table_is_a_row_and_a_notice(tmp_path):
    """Beside the servers that can be read; its name cannot control the terminal."""
    declared = Declared({"good": parse_server("good", {"command": "x"})}, faults={"bad\x1b": "why"})
    assert [line.split() for line in table(declared, None)][2][1:] == ["faulty", "why"]
    assert any("faul" in line for line in notices(declared, StatusReply(), tmp_path))
    (line,) = [line for line in notices(Declared(faults={"bad": "why"}), StatusReply(), tmp_path)]
    assert line.startswith("warning")
