"""What a call is for: found once, before every policy."""

from __future__ import annotations

import json
from types import SimpleNamespace

import pytest
from mcp.shared.exceptions import MCPError

from searchbus_edge.catalog.view import LAZY, View
from searchbus_edge.mcp.messages import read_request
from searchbus_edge.tools.resolve import Resolver


@pytest.fixture
def view(make_tool):
    """Two tools of a service, and call_tool under another name."""
    tools = {
        "big": make_tool("big", max_request_bytes=5000),
        "secret": make_tool("secret", required_roles=("NOBODY",)),
        "run": make_tool("call_tool", listed_as="run", toolset=LAZY),
    }
    return View((0, True, 0), tools=tools)


@pytest.fixture
def resolver(view):
    return Resolver(SimpleNamespace(view=lambda toolset: view, unseen=[]))


def request(name, /, method="tools/call", **arguments):
    params = {"name": name, "arguments": arguments}
    body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
    return read_request(json.dumps(body).encode())


@pytest.mark.parametrize(
    ("name", "arguments", "listed", "called", "size"),
    [
        ("big", {}, "big", "big", 5000),
        ("secret", {"name": "big"}, "secret", "secret", 0),
        ("run", {"name": "big"}, "run", "big", 5000),
        ("run", {"name": "run"}, "run", "run", 0),
        ("run", {"name": ["big"]}, "run", None, 0),
        ("run", {}, "run", None, 0),
        ("absent", {"name": "big"}, None, None, 0),
    ],
)
def test_call_tool_stands_for_the_tool_that_it_names(
    view, resolver, name, arguments, listed, called, size
):
    """From a message as from decoded arguments."""
    targets = [
        resolver.target(view, name, arguments),
        resolver.of_names(view, name, request(name, **arguments).named_argument),
    ]
    for target in targets:
        assert target.name == name
        assert target.listed is view.tools.get(listed)
        assert target.called is view.tools.get(called)
        assert target.max_request_bytes == size


def test_call_that_is_passed_on_is_one_of_the_named_tool(view, resolver):
    """It was looked up before."""
    target = resolver.target(view, "run", {"name": "big"})
    passed_on = resolver.passed_on(target, "big")
    assert (passed_on.listed, passed_on.called) == (view.tools["big"], view.tools["big"])
    assert resolver.passed_on(resolver.target(view, "run", {}), "x").listed is None


@pytest.mark.parametrize("name", ["absent", "secret"])
def test_hidden_tool_is_unknown(view, resolver, reader, name):
    """With the same words."""
    assert resolver.require(resolver.target(view, "big", {}), reader).name == "big"
    with pytest.raises(MCPError, match=f"Unknown tool: {name}. tools/list shows those there are."):
        resolver.require(resolver.target(view, name, {}), reader)
