"""HTTP that is not well-formed MCP: status, JSON-RPC error, and nothing internal."""

from __future__ import annotations

import asyncio
import json
import socket

import httpx
import pytest

from searchbus_bus import Call, Worker
from searchbus_contracts import ToolCall, ToolDescriptor, ToolReply
from searchbus_edge.app import build_app
from searchbus_edge.settings import EdgeSettings
from searchbus_runtime import Health
from searchbus_testing import until

HEADERS = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json"}
LIST = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}


@pytest.fixture
async def http(running):
    async with httpx.AsyncClient(base_url=running.url, headers=HEADERS) as http:
        yield http


LARGE_BYTES = 6_000_000
"""More than the kernel keeps for a client with a small buffer that does not read."""
SMALL_SHARE = {
    "toolset_order": ("dictionary",), "large_answer_bytes": 10_000_000,
    "large_answer_bytes_per_caller": 8_000_000,
}  # fmt: skip


@pytest.fixture
async def page(running):
    """A worker with a tool whose answer is large."""

    async def answer(call: Call, request: ToolCall) -> ToolReply:
        return ToolReply(structured={"text": "w" * LARGE_BYTES})

    worker = Worker("pages")
    worker.add_tool(
        ToolDescriptor(
            name="page", toolset="pages", description="A page.", renderer="json",
            input_schema={"type": "object"}, output_schema={"type": "object"},
        ),
        answer,
    )  # fmt: skip
    await running.broker.connect(name="pages").serve(worker)
    await until(lambda: running.edge.registry.offers("pages"))


CALL = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "page"}}
FORMS = {
    "json": ("/mcp", CALL, HEADERS),
    "events": ("/mcp", CALL, HEADERS | {"Accept": "text/event-stream"}),
    "plain": ("/api/v1/tools/page", {}, HEADERS),
    "batch": ("/mcp", [CALL], HEADERS),
}


@pytest.mark.parametrize("running", [SMALL_SHARE], indirect=True)
@pytest.mark.parametrize("form", FORMS)
async def test_large_answer_counts_until_its_client_has_read_it(running, http, page, form):
    """Meanwhile another one is refused, and a small one is not; afterwards its bytes are free."""
    path, message, headers = FORMS[form]
    body = json.dumps(message).encode()
    client = socket.socket()
    client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    client.connect(("127.0.0.1", int(running.url.rpartition(":")[2])))
    reader, writer = await asyncio.open_connection(sock=client, limit=1024)
    lines = [f"POST {path} HTTP/1.1", "Host: 127.0.0.1", f"Content-Length: {len(body)}"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    writer.write("\r\n".join([*lines, "", ""]).encode() + body)
    budget = running.edge.bus.transit
    await until(lambda: budget.used_bytes > LARGE_BYTES)
    assert b"200" in await reader.readline()
    refused = (await http.post("/mcp", json=CALL)).json()["result"]
    assert refused["isError"]
    error = refused["structuredContent"]["error"]
    assert (error["code"], error["retry_after_ms"]) == ("overloaded", 1000)
    plain = await http.post("/api/v1/tools/page", json={})
    assert (plain.status_code, plain.headers["retry-after"]) == (503, "1")
    say = CALL | {"params": {"name": "say"}}
    assert not (await http.post("/mcp", json=say)).json()["result"]["isError"]
    assert budget.used_bytes > LARGE_BYTES
    if form == "json":  # the client leaves instead
        writer.transport.abort()
    while not reader.at_eof() and budget.used_bytes:
        await reader.read(64 * 1024)
    await until(lambda: budget.used_bytes == 0)
    assert len((await http.post("/mcp", json=CALL)).content) > 2 * LARGE_BYTES
    writer.close()


@pytest.mark.parametrize(
    ("content", "headers", "status", "code"),
    [
        (b"", {}, 400, -32700),
        (b"{", {}, 400, -32700),
        (b"\xff\xfe", {}, 400, -32700),
        (b'{"jsonrpc":"2.0","id":1,"method":"\xff"}', {}, 400, -32700),
        (b"[" * 100_000, {}, 400, -32700),
        (b'{"a":' * 40_000, {}, 400, -32700),
        (b"[" + b'"",' * 20_001 + b'""]', {}, 413, None),
        (b"5", {}, 400, None),
        (b"{}", {}, 400, None),
        (json.dumps(LIST).encode(), {"Content-Type": "text/plain"}, 400, None),
        (json.dumps(LIST).encode(), {"Accept": "text/html"}, 406, None),
        (json.dumps(LIST).encode(), {"MCP-Protocol-Version": "1999-01-01"}, 400, None),
        (json.dumps(LIST).encode(), {"Host": "evil.example"}, 421, None),
        (json.dumps(LIST).encode(), {"Origin": "http://evil.example"}, 403, None),
        (b'"' + b"x" * (5 * 1024 * 1024) + b'"', {}, 413, None),
    ],
)
async def test_bad_request_gets_its_error(http, content, headers, status, code):
    """Neither a traceback nor the text of an exception."""
    response = await http.post("/mcp", content=content, headers=headers)
    assert response.status_code == status
    assert "Traceback" not in response.text
    if code is not None:
        assert response.json()["error"]["code"] == code


@pytest.mark.parametrize("revision", [None, "2026-07-28"])
@pytest.mark.parametrize(
    ("message", "code", "text", "message_id"),
    [
        ({"id": 1.5, "method": "tools/list"}, -32600, "id must be", None),
        ({"id": None, "method": "tools/list"}, -32600, "id must be", None),
        ({"id": True, "method": "tools/list"}, -32600, "id must be", None),
        ({"id": "a", "method": 5}, -32600, "method must be", "a"),
        ({"id": 7, "method": "tools/list", "params": []}, -32602, "params must be", 7),
        ({"id": 7, "method": "tools/list", "params": "x"}, -32602, "params must be", 7),
        ({"id": 7, "method": "tools/list", "jsonrpc": "1.0"}, -32600, "jsonrpc must be", 7),
    ],
)
async def test_bad_envelope_names_the_field(http, message, code, text, message_id, revision):
    """400 with one sentence, on old and new revisions; never a library's dump."""
    headers = {"MCP-Protocol-Version": revision} if revision else {}
    response = await http.post("/mcp", json={"jsonrpc": "2.0", **message}, headers=headers)
    error = response.json()
    assert response.status_code == 400
    assert (error["error"]["code"], error["id"]) == (code, message_id)
    assert error["error"]["message"].startswith(text)
    assert "pydantic" not in response.text


@pytest.mark.parametrize("method", ["GET", "DELETE", "PUT", "PATCH"])
async def test_other_methods_are_not_allowed(http, method):
    """A stateless endpoint has no stream to open and no session to end."""
    response = await http.request(method, "/mcp")
    assert response.status_code == 405
    assert response.headers["allow"] == "POST"
    assert response.json()["error"]["code"] == -32600


@pytest.mark.parametrize(
    "path",
    ["/", "/healthz", "/readyz", "/metrics", "/documents/a/b", "/docs", "/docs/start.js",
     "/openapi.json", "/api/v1/tools", "/read", "/searxng", "/nowhere", "/mcp"],
)  # fmt: skip
async def test_head_is_answered_as_get_without_a_body(http, path):
    """RFC 9110 asks it of every server; checkers of links and proxies ask so."""
    found, head = await http.get(path), await http.head(path)
    assert (head.status_code, head.content) == (found.status_code, b"")
    assert head.headers["content-type"] == found.headers["content-type"]
    assert path == "/metrics" or head.headers["content-length"] == found.headers["content-length"]


async def test_allowed_methods_have_head(http):
    """As they are served."""
    allowed = [(await http.delete(path)).headers["allow"] for path in ("/", "/read", "/searxng")]
    assert allowed == ["GET, HEAD", "GET, HEAD", "GET, HEAD, POST"]


async def test_unknown_toolset_is_not_found(http):
    """With a JSON-RPC body that says where to look."""
    response = await http.post("/mcp/nope", json=LIST)
    assert response.status_code == 404
    assert "GET /" in response.json()["error"]["message"]


async def test_unknown_method_is_method_not_found(http):
    """-32601, on the oldest and the newest wire."""
    body = {"jsonrpc": "2.0", "id": 1, "method": "no/such", "params": {}}
    response = await http.post("/mcp", json=body)
    assert "-32601" in response.text


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("POST", "/mcp", 400), ("GET", "/mcp", 405), ("POST", "/mcp/nope", 404), ("GET", "/", 200),
        ("POST", "/", 405), ("GET", "/nowhere", 404), ("GET", "/healthz", 200),
        ("GET", "/readyz", 200), ("GET", "/metrics", 200), ("GET", "/documents/a/b", 503),
        ("GET", "/.well-known/oauth-protected-resource", 404), ("GET", "/docs", 200),
        ("GET", "/docs/start.js", 200), ("GET", "/docs/nothing", 404), ("GET", "/openapi.json", 200),
        ("GET", "/api/v1/tools", 200), ("POST", "/api/v1/tools/say", 200),
        ("POST", "/api/v1/tools/fail", 429), ("POST", "/api/v1/tools", 405), ("GET", "/read", 400),
        ("GET", "/searxng", 403), ("DELETE", "/searxng", 405), ("POST", "/tavily/search", 400),
        ("GET", "/tavily/crawl", 404),
    ],
)  # fmt: skip
async def test_every_answer_has_the_headers_of_all(http, method, path, status):
    """Whichever interface gives it, also for failures and addresses where there is nothing."""
    body = {"json": {}} if method == "POST" else {}
    response = await http.request(method, path, **body)
    assert response.status_code == status
    assert response.headers["x-content-type-options"] == "nosniff"


async def test_mcp_result_has_the_headers_of_all(http):
    """On the fast way too, which writes them without events of ASGI; and in a stream."""
    for accept in ("application/json", "text/event-stream"):
        response = await http.post("/mcp", json=LIST, headers={"Accept": accept})
        assert response.status_code == 200
        assert response.headers["x-content-type-options"] == "nosniff"


async def test_error_of_a_page_shows_nothing(running, monkeypatch):
    """A fixed text; the server logs it."""

    async def broken(*arguments, **options):
        raise RuntimeError("secret-canary")

    monkeypatch.setattr(type(running.edge.read), "__call__", broken)
    transport = httpx.ASGITransport(build_app(running.edge, Health()), raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as http:
        response = await http.get("/documents/a/b")
    assert (response.status_code, response.text) == (500, "Internal Server Error")
    assert response.headers["x-content-type-options"] == "nosniff"


async def test_about_lists_the_endpoints(http):
    """The root says what there is."""
    assert (await http.get("/")).json()["endpoints"] == ["/mcp", "/mcp/dictionary", "/mcp/atlas"]


async def test_client_that_disconnects_stops_the_worker(running):
    """Closing the connection in the middle of a call cancels it at the worker."""
    body = json.dumps(
        {
            "jsonrpc": "2.0",
            "id": 1,
            "method": "tools/call",
            "params": {"name": "slow", "arguments": {}},
        }
    )
    port = int(running.url.rsplit(":", 1)[1])
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    head = "".join(f"{name}: {value}\r\n" for name, value in HEADERS.items())
    writer.write(
        f"POST /mcp/dictionary HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n{head}"
        f"Content-Length: {len(body)}\r\n\r\n{body}".encode()
    )
    await until(lambda: running.dictionary.started)
    writer.close()
    await until(lambda: running.dictionary.cancelled)
    del reader


async def test_json_corpus_never_breaks_the_edge(http, reference):
    """Every file of a public corpus of odd JSON gets a client error, never a 500."""
    for path in sorted((reference / "corpora" / "jsontestsuite" / "test_parsing").glob("*.json")):
        response = await http.post("/mcp", content=path.read_bytes())
        assert 400 <= response.status_code < 500, path.name


def test_edge_refuses_to_be_open_by_accident():
    """Off loopback it starts only with an explicit setting."""
    with pytest.raises(ValueError, match="SEARCHBUS_AUTH=none"):
        EdgeSettings(host="0.0.0.0")
    assert not EdgeSettings(host="0.0.0.0", auth="none").on_loopback
    assert EdgeSettings(host="::1").on_loopback
    assert EdgeSettings(host=socket.inet_ntoa(b"\x7f\x00\x00\x05")).on_loopback
