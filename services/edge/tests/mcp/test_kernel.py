"""The SDK as a kernel: one exchange a message, errors and statuses of its transports."""

from __future__ import annotations

import json

import mcp_types as types
import pytest
from mcp.server import Server
from mcp.shared.exceptions import MCPError, NoBackChannelError

from searchbus_contracts import Actor
from searchbus_edge.http.head import Head, Received, is_modern, parse_head
from searchbus_edge.mcp.kernel import Exchange, Failed, Kernel
from searchbus_edge.mcp.messages import Notification, read_other, read_request

MODERN = "2026-07-28"
META = {
    "io.modelcontextprotocol/protocolVersion": MODERN,
    "io.modelcontextprotocol/clientCapabilities": {},
}


class Answer:
    """Keeps what is sent."""

    def __init__(self) -> None:
        self.notifications = []
        self.response = None
        self.status = 0

    async def notify(self, message):
        self.notifications.append(json.loads(message))

    async def finish(self, message, status=200):
        self.response, self.status = json.loads(message), status


@pytest.fixture
def seen():
    return []


@pytest.fixture
def kernel(seen):
    """A server with one tool, which reports progress and then fails where it is told to."""

    async def call_tool(ctx, params):
        seen.append(ctx)
        await ctx.session.report_progress(1, 2, "half")
        if params.name == "refuse":
            raise MCPError(-32602, "no")
        if params.name == "break":
            raise RuntimeError("secret-canary")
        return types.CallToolResult(content=[])

    return Kernel(Server("s", version="1", on_call_tool=call_tool))


@pytest.fixture
def ask(kernel):
    """Sends one request; returns its answer."""

    async def run(method, params=None, revision=None, *headers):
        answer = Answer()
        body = {"jsonrpc": "2.0", "id": 7, "method": method}
        if params is not None:
            body["params"] = params
        lines = list(headers)
        if revision is not None:
            lines.append((b"mcp-protocol-version", revision.encode()))
        text = json.dumps(body).encode()
        request = read_request(text) or read_other(text, modern=is_modern(revision))
        received = Received(parse_head(lines), Actor(subject="a"))
        await kernel.request(received, request, answer)
        return answer

    return run


@pytest.mark.parametrize(
    ("revision", "modern"),
    [(None, False), ("2024-11-05", False), ("2025-11-25", False), (MODERN, True), ("1999", True)],
)
def test_unknown_revisions_count_as_modern(revision, modern):
    """Their rules name the supported ones."""
    assert is_modern(revision) is modern


async def test_handlers_find_the_caller_and_the_revision(ask, seen):
    """Without a header it is that of 2025-03-26."""
    await ask("tools/call", {"name": "t", "arguments": {}})
    await ask("tools/call", {"name": "t", "arguments": {}}, "2025-11-25")
    assert [ctx.protocol_version for ctx in seen] == ["2025-03-26", "2025-11-25"]
    assert seen[0].request.actor.subject == "a"


@pytest.mark.parametrize("token", [None, 5, "five"])
async def test_progress_goes_to_clients_with_a_token(ask, token):
    """Before the response."""
    meta = {} if token is None else {"_meta": {"progressToken": token}}
    answer = await ask("tools/call", {"name": "t", "arguments": {}, **meta})
    sent = [n["params"]["progressToken"] for n in answer.notifications]
    assert sent == ([] if token is None else [token])
    assert answer.response["id"] == 7


@pytest.mark.parametrize(
    ("name", "code", "modern_status"), [("refuse", -32602, 400), ("break", -32603, 200)]
)
async def test_errors_have_a_status_on_the_modern_revision(ask, name, code, modern_status):
    """On the older ones 200; nothing internal leaks."""
    params = {"name": name, "arguments": {}}
    old = await ask("tools/call", params, "2025-11-25")
    new = await ask("tools/call", {**params, "_meta": META}, MODERN,
                    (b"mcp-method", b"tools/call"), (b"mcp-name", name.encode()))  # fmt: skip
    assert (old.status, new.status) == (200, modern_status)
    for answer in (old, new):
        assert answer.response["error"]["code"] == code
        assert "canary" not in str(answer.response)


@pytest.mark.parametrize(
    ("method", "params", "headers", "status", "code"),
    [
        ("tools/list", {}, [(b"mcp-method", b"tools/list")], 400, -32602),
        ("ping", {"_meta": META}, [(b"mcp-method", b"pong")], 400, -32020),
        ("x/y", {"_meta": META}, [(b"mcp-method", b"x/y")] * 2, 400, -32020),
        ("x/y", {"_meta": META}, [(b"mcp-method", b"x/y")], 404, -32601),
    ],
)
async def test_header_rules_of_the_modern_revision(ask, method, params, headers, status, code):
    """The SDK's own, in its order."""
    answer = await ask(method, params, MODERN, *headers)
    assert (answer.status, answer.response["error"]["code"]) == (status, code)


@pytest.mark.parametrize("params", [None, {}, {"_meta": {}}, {"_meta": 5}])
@pytest.mark.parametrize("revision", ["1999-01-01", ""])
async def test_header_of_no_revision_is_named(ask, params, revision):
    """Of a client that has its revision nowhere else, so an older one; with those there are."""
    error = (await ask("tools/list", params, revision)).response["error"]
    assert (error["code"], error["message"][:21]) == (-32022, "MCP-Protocol-Version ")
    assert {"2025-11-25", MODERN} <= set(error["data"]["supported"])
    assert all(f" {known}" in error["message"] for known in error["data"]["supported"])


@pytest.mark.parametrize(
    "headers",
    [[], [(b"mcp-name", b"other")], [(b"mcp-name", b"t")] * 2],
)
async def test_wrong_header_has_a_remedy(ask, headers):
    """Also one that is missing."""
    params = {"name": "t", "arguments": {}, "_meta": META}
    answer = await ask("tools/call", params, MODERN, (b"mcp-method", b"tools/call"), *headers)
    error = answer.response["error"]
    assert (error["code"], "mcp-name" in error["message"]) == (-32020, True)
    assert error["message"].endswith(". Send each header once, with the body's value.")


async def test_unknown_revision_names_the_supported_ones(ask, kernel):
    """Of requests and of notifications."""
    meta = {**META, "io.modelcontextprotocol/protocolVersion": "2099-01-01"}
    answer = await ask("ping", {"_meta": meta}, "2099-01-01", (b"mcp-method", b"ping"))
    assert (answer.status, answer.response["error"]["code"]) == (400, -32022)
    received = Received(Head((), revision="2099-01-01"), Actor())
    error = json.loads(await kernel.notification(received, Notification("notifications/x")))
    assert error["error"]["data"]["supported"] == [MODERN]


@pytest.mark.parametrize("revision", [None, "2025-11-25", MODERN])
@pytest.mark.parametrize("method", ["notifications/initialized", "notifications/odd", ""])
async def test_notifications_are_accepted(kernel, revision, method):
    """Known or not; so are responses."""
    received = Received(Head((), revision=revision), Actor())
    assert await kernel.notification(received, Notification(method)) is None


@pytest.mark.parametrize("params", [[], "x", 0])
async def test_params_must_be_an_object(ask, params):
    """With the id of the request."""
    answer = await ask("tools/call", params)
    assert (answer.status, answer.response["id"]) == (400, 7)
    assert answer.response["error"]["code"] == -32602


async def test_listening_needs_an_event_stream(ask):
    """Its answer is one."""
    answer = await ask("subscriptions/listen", {"_meta": META}, MODERN,
                       (b"accept", b"application/json"),
                       (b"mcp-method", b"subscriptions/listen"))  # fmt: skip
    assert answer.status == 406


async def test_result_alone_says_what_failed(kernel):
    """Only results are kept by the lists; nothing is done where the headers are wrong."""
    request = read_request(b'{"jsonrpc":"2.0","id":1,"method":"no/such"}')
    failed = await kernel.result(Received(Head(()), Actor()), request)
    assert isinstance(failed, Failed)
    assert (failed.status, json.loads(failed.body)["error"]["code"]) == (200, -32601)
    assert await kernel.result(Received(Head((), revision="2026-07-28"), Actor()), request) is None


async def test_server_cannot_ask_the_client():
    """A stateless server would never get the response."""
    exchange = Exchange(Received(Head(()), Actor()), None)
    with pytest.raises(NoBackChannelError):
        await exchange.send_raw_request("sampling/createMessage", {})
    await exchange.notify("notifications/x", None)
    assert not exchange.cancel_requested.is_set()
