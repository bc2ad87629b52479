"""What commands show of a server."""

from __future__ import annotations

from searchbus_attach.command_status import ask_status, masked
from searchbus_attach.servers import parse_server


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
