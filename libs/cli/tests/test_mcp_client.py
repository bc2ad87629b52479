"""The small MCP client."""

from __future__ import annotations

import json

import httpx
import pytest

from searchbus_cli.mcp_client import McpError, McpHttp

URL = "http://edge.test/mcp"


def client(*replies: httpx.Response | Exception) -> tuple[McpHttp, list[httpx.Request]]:
    """A client whose server sends these replies in turn; and the requests that it gets."""
    waiting, requests = list(replies), []

    def handle(request: httpx.Request) -> httpx.Response:
        requests.append(request)
        reply = waiting.pop(0)
        if isinstance(reply, Exception):
            raise reply
        return reply

    return McpHttp(URL, transport=httpx.MockTransport(handle)), requests


def result(value: dict) -> httpx.Response:
    return httpx.Response(200, json={"jsonrpc": "2.0", "id": 1, "result": value})


def events(*data: str) -> httpx.Response:
    text = "".join(f"data: {line}\r\n\r\n" for line in data)
    return httpx.Response(200, headers={"content-type": "text/event-stream"}, text=text)


def test_request_names_revision_method_and_tool(monkeypatch):
    """The headers that revision 2026-07-28 demands, and the token where there is one."""
    monkeypatch.setenv("SEARCHBUS_TOKEN", "abc")
    mcp, requests = client(result({"content": []}))
    assert mcp.request("tools/call", {"name": "add", "arguments": {}}) == {"content": []}
    headers, body = requests[0].headers, json.loads(requests[0].content)
    assert headers["mcp-protocol-version"] == "2026-07-28"
    assert (headers["mcp-method"], headers["mcp-name"]) == ("tools/call", "add")
    assert headers["authorization"] == "Bearer abc"
    meta = body["params"]["_meta"]
    assert meta["io.modelcontextprotocol/protocolVersion"] == "2026-07-28"
    assert mcp.trace_id == meta["traceparent"].split("-")[1]


def test_reply_of_an_event_stream_is_the_event_with_an_id():
    """Progress comes before it, and empty events keep the connection open."""
    progress = json.dumps({"jsonrpc": "2.0", "method": "notifications/progress", "params": {}})
    reply = json.dumps({"jsonrpc": "2.0", "id": 1, "result": {"tools": []}})
    mcp, _ = client(events("", progress, reply))
    assert mcp.request("tools/list") == {"tools": []}


def test_pages_are_joined():
    """The cursor of each page is sent for the next."""
    mcp, requests = client(result({"tools": [1, 2], "nextCursor": "c"}), result({"tools": [3]}))
    assert mcp.pages("tools/list", "tools") == [1, 2, 3]
    assert json.loads(requests[1].content)["params"]["cursor"] == "c"


@pytest.mark.parametrize(
    ("reply", "said"),
    [
        (httpx.Response(200, json={"id": 1, "error": {"code": -32602, "message": "Unknown tool"}}),
         r"Unknown tool \(-32602\)"),
        (httpx.Response(401, json={"id": None, "error": {"code": -31401, "message": "No."}}),
         r"No\. \(-31401\) .* SEARCHBUS_TOKEN"),
        (httpx.Response(404, json={"detail": "Not Found"}), r"no MCP reply \(HTTP 404\)"),
        (httpx.Response(502, text="<html>"), r"no MCP reply \(HTTP 502\)"),
        (httpx.Response(200, json=[1]), "no MCP reply"),
        (events("{"), "no MCP reply"),
        (events('{"method": "x"}'), "no MCP reply"),
        (httpx.ConnectError("refused"), "does not answer .*searchbus up"),
    ],
)  # fmt: skip
def test_anything_else_is_one_error(reply, said):
    """It says what the server sent."""
    mcp, _ = client(reply)
    with pytest.raises(McpError, match=said):
        mcp.request("tools/list")


@pytest.mark.parametrize("url", ["http://[::1", "localhost:8080", "foo"])
def test_address_that_is_none_says_how_to_write_it(url):
    """It is what somebody typed."""
    with pytest.raises(McpError, match=r"Write it like http://"):
        McpHttp(f"{url}/mcp").request("tools/list")


@pytest.mark.parametrize("token", ["ümläut", "two\nlines"])
def test_token_that_no_header_can_have_is_named(token, monkeypatch):
    """Without showing it."""
    monkeypatch.setenv("SEARCHBUS_TOKEN", token)
    mcp, _ = client()
    with pytest.raises(McpError, match="SEARCHBUS_TOKEN has characters") as raised:
        mcp.request("tools/list")
    assert token not in str(raised.value)
