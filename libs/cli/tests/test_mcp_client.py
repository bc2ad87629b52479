"""The small MCP client."""

from __future__ import annotations

import json
from collections.abc import Callable
from email.message import Message
from http.client import RemoteDisconnected
from typing import Any

import pytest

from searchbus_cli import mcp_client
from searchbus_cli.mcp_client import Answer, McpError, McpHttp, endpoint
from searchbus_testing.certificates import self_signed

URL = "http://edge.test/mcp"
Client = Callable[..., tuple[McpHttp, list[tuple[dict[str, str], Any]]]]


@pytest.fixture
def client(monkeypatch) -> Client:
    """Makes a client whose server sends these replies in turn; and the requests that it gets."""

    def make(*replies: Answer | Exception):
        waiting, requests = list(replies), []

        def post(url, message, headers, timeout_s):
            requests.append((headers, message))
            reply = waiting.pop(0)
            if isinstance(reply, Exception):
                raise reply
            return reply

        monkeypatch.setattr(mcp_client, "post", post)
        return McpHttp(URL), requests

    return make


def answer(status: int, body: Any, kind: str = "application/json") -> Answer:
    headers = Message()
    headers["Content-Type"] = kind
    return Answer(status, headers, (body if isinstance(body, str) else json.dumps(body)).encode())


def result(value: dict) -> Answer:
    return answer(200, {"jsonrpc": "2.0", "id": 1, "result": value})


def events(*data: str) -> Answer:
    text = "".join(f"event: message\r\ndata: {line}\r\n\r\n" for line in data)
    return answer(200, text, "text/event-stream")


def test_request_names_revision_method_and_tool(client, monkeypatch):
    """The headers that revision 2026-07-28 demands, and the token where there is one."""
    monkeypatch.setenv("SEARCHBUS_TOKEN", "abc")
    mcp, requests = client(result({"content": []}))
    assert mcp.request("tools/call", {"name": "add", "arguments": {}}) == {"content": []}
    headers, body = requests[0]
    assert headers == {
        "MCP-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/call", "Mcp-Name": "add",
        "Authorization": "Bearer abc",
    }  # fmt: skip
    meta = body["params"]["_meta"]
    assert meta["io.modelcontextprotocol/protocolVersion"] == "2026-07-28"
    assert mcp.trace_id == meta["traceparent"].split("-")[1]


def test_reply_of_an_event_stream_is_the_event_with_an_id(client):
    """Progress comes before it, and empty events keep the connection open."""
    progress = json.dumps({"jsonrpc": "2.0", "method": "notifications/progress", "params": {}})
    reply = json.dumps({"jsonrpc": "2.0", "id": 1, "result": {"tools": []}})
    mcp, _ = client(events("", progress, reply))
    assert mcp.request("tools/list") == {"tools": []}


def test_pages_are_joined(client):
    """The cursor of each page is sent for the next."""
    mcp, requests = client(result({"tools": [1, 2], "nextCursor": "c"}), result({"tools": [3]}))
    assert mcp.pages("tools/list", "tools") == [1, 2, 3]
    assert requests[1][1]["params"]["cursor"] == "c"


@pytest.mark.parametrize(
    ("reply", "said"),
    [
        (answer(200, {"id": 1, "error": {"code": -32602, "message": "Unknown tool"}}),
         r"Unknown tool \(-32602\)"),
        (answer(401, {"id": None, "error": {"code": -31401, "message": "No."}}),
         r"No\. \(-31401\) .* SEARCHBUS_TOKEN"),
        (answer(404, {"detail": "Not Found"}), r"no MCP reply \(HTTP 404\)"),
        (answer(502, "<html>"), r"no MCP reply \(HTTP 502\)"),
        (answer(200, [1]), "no MCP reply"),
        (events("{"), "no MCP reply"),
        (events('{"method": "x"}'), "no MCP reply"),
        (ConnectionRefusedError("refused"), "does not answer .*searchbus up"),
        (RemoteDisconnected("gone"), "does not answer .*searchbus up"),
    ],
)  # fmt: skip
def test_anything_else_is_one_error(client, reply, said):
    """It says what the server sent."""
    mcp, _ = client(reply)
    with pytest.raises(McpError, match=said):
        mcp.request("tools/list")


@pytest.mark.parametrize(
    "url", ["http://[::1", "localhost:8080", "foo", "http://a:x", "https://u:p@a", "http://a..b"]
)
def test_address_that_is_none_says_how_to_write_it(url):
    """It is what somebody typed."""
    with pytest.raises(McpError, match=r"Write it like http://"):
        McpHttp(f"{url}/mcp").request("tools/list")


def test_an_authority_of_the_system_is_trusted_and_no_other(fake_edge, tmp_path, monkeypatch):
    """Of a company, whose edge has a name that no public authority signs."""
    certificate, key = self_signed(tmp_path)
    fake_edge.answers["tools/list"] = lambda _: {"result": {"tools": []}}
    fake_edge.speak_tls(certificate, key)
    mcp = McpHttp(f"{fake_edge.url}/mcp")
    monkeypatch.delenv("SSL_CERT_FILE", raising=False)
    with pytest.raises(McpError, match=r"makes no secure connection .* in SSL_CERT_FILE"):
        mcp.request("tools/list")
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    assert mcp.request("tools/list") == {"tools": []}


@pytest.mark.parametrize("token", ["ümläut", "two\nlines"])
def test_token_that_no_header_can_have_is_named(client, token, monkeypatch):
    """Without showing it."""
    monkeypatch.setenv("SEARCHBUS_TOKEN", token)
    mcp, _ = client()
    with pytest.raises(McpError, match="SEARCHBUS_TOKEN has characters") as raised:
        mcp.request("tools/list")
    assert token not in str(raised.value)


def test_the_name_of_a_toolset_is_one_part_of_the_path():
    """Also one that somebody mistyped."""
    assert endpoint("http://a", None, "a b/ü").url == "http://a/mcp/a%20b%2F%C3%BC"
