"""What commands show of a server."""

from __future__ import annotations

from searchbus_attach.command_status import (
    ask_status,
    masked,
    shown_selection,
    state_of,
    summary,
)
from searchbus_attach.servers import parse_server
from searchbus_attach.views import parse_selection
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


def test_a_line_says_what_is_to_be_looked_at():
    """And nothing of what is as usual."""
    server = parse_server("files", {"command": "/usr/bin/npx"})
    assert summary(server, None) == "files  not running  npx"
    assert state_of(parse_server("a", {"command": "x", "enabled": False})) == "disabled"
    found = AttachedServer(name="files", state="up", target="npx", tools=7)
    assert summary(server, found) == "files  up  npx  7 tools"
    away = AttachedServer(
        name="files", state="down", target="npx", tools=7, held=2, stale=True, problem="it ended",
        view_problems=("a",),
    )  # fmt: skip
    line = "files  down  npx  7 tools, 2 changed, 1 view problems, stale  it ended"
    assert summary(server, away) == line


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
