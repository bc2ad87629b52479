"""The configurations that desktop hosts write."""

from __future__ import annotations

import json

import pytest

from searchbus_attach.declare.host_files import parse_host_file, renamed
from searchbus_attach.errors import ServerDeclarationError

CLAUDE = {
    "mcpServers": {"Brave Search": {"command": "npx", "args": ["-y", "x"], "env": {"K": "v"}}}
}
CURSOR = {"mcpServers": {"far": {"url": "https://x.example/sse", "headers": {"A": "b"}}}}
VS_CODE = {
    "inputs": [{"id": "key", "type": "promptString"}],
    "servers": {
        "a": {"type": "stdio", "command": "uvx", "args": ["x"], "env": {"K": "${input:key}"}},
        "b": {"type": "http", "url": "https://x.example/mcp"},
    },
}


def test_claude_desktop():
    """A name with a space becomes one of searchbus."""
    (server,) = parse_host_file(json.dumps(CLAUDE)).values()
    assert (server.name, server.command, server.args) == ("Brave-Search", "npx", ("-y", "x"))
    assert server.env == {"K": "v"}


def test_a_name_that_a_server_cannot_have_is_changed():
    """As little as possible."""
    names = ["my__server", "_x_", "a" * 39 + "_b", "Ein Tool (neu)"]
    found = parse_host_file(json.dumps({"mcpServers": {n: {"command": "x"} for n in names}}))
    assert list(found) == ["my_server", "x", "a" * 39, "Ein-Tool-neu"]
    text = json.dumps({"mcpServers": {"a": {}, "my server!": {}}})
    assert renamed(text) == {"my server!": "my-server"}


def test_cursor():
    """A URL alone; its path says which transport."""
    (server,) = parse_host_file(json.dumps(CURSOR)).values()
    assert (server.url, server.transport) == ("https://x.example/sse", "sse")


@pytest.mark.parametrize("content", [VS_CODE, {"mcp": VS_CODE}])
def test_vs_code(content):
    """In a file of its own, or in the settings."""
    found = parse_host_file(json.dumps(content))
    assert (found["a"].command, found["a"].env) == ("uvx", {"K": "${input:key}"})
    assert (found["b"].url, found["b"].transport) == ("https://x.example/mcp", "http")


def test_comments_of_vs_code():
    """And its commas after last items."""
    text = """{
      // "servers": of this folder
      "servers": {"a": {"url": "https://x.example//a" /* none */,},},
    }"""
    assert parse_host_file(text)["a"].url == "https://x.example//a"


def test_what_a_host_keeps_for_itself_is_left_out():
    """A server that is switched off stays so."""
    keys = {"command": "x", "disabled": True, "autoApprove": ["a"], "timeout": 60}
    (server,) = parse_host_file(json.dumps({"mcpServers": {"a": keys}})).values()
    assert not server.enabled


@pytest.mark.parametrize(
    ("command", "arguments", "enabled"),
    [
        ("searchbus", ["stdio"], False),
        ("/opt/bin/searchbus", ["stdio", "--toolset", "web"], False),
        ("searchbus", ["up"], True),
        ("searchbus-other", ["stdio"], True),
    ],
)
def test_searchbus_itself_is_disabled(command, arguments, enabled):
    """A host's file that is followed names it where the host uses searchbus."""
    keys = {"command": command, "args": arguments}
    (server,) = parse_host_file(json.dumps({"mcpServers": {"a": keys}})).values()
    assert server.enabled is enabled


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "not JSON"),
        ("{/* open", "not JSON"),
        ("[]", "mcpServers"),
        ('{"mcpServers": {"a": 1}}', "not an object"),
        ('{"mcpServers": {"a": {"comand": "x"}}}', "Did you mean 'command'"),
        ('{"mcpServers": {"a": {"url": "https://x.example", "type": "ws"}}}', "ws"),
        ('{"mcpServers": {"a": {"url": "https://x.example", "type": ["http"]}}}', "unknown type"),
        ('{"mcpServers": {"a": {"url": "http://[::1"}}}', "not an address"),
        ('{"mcpServers": {"\u65e5\u672c": {"command": "x"}}}', "no letter or digit"),
        ('{"mcpServers": {"a b": {"command": "x"}, "a-b": {"command": "x"}}}', "two servers"),
    ],
)
def test_what_cannot_be_read_is_named(text, message):
    """Nothing of such a file is taken."""
    with pytest.raises(ServerDeclarationError, match=message):
        parse_host_file(text)
