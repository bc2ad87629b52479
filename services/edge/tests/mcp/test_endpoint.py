"""The path of a request: what is checked, in which order, and who serves the message."""

from __future__ import annotations

import asyncio
import json
from types import SimpleNamespace

import httpx
import pytest

from searchbus_bus import MemoryBroker
from searchbus_contracts import Actor
from searchbus_edge.auth.authenticator import Authenticator
from searchbus_edge.auth.identity import Identity, UnauthenticatedError
from searchbus_edge.bootstrap import open_edge
from searchbus_edge.catalog.view import LAZY, View
from searchbus_edge.http.body import BodyLimits
from searchbus_edge.mcp import endpoint
from searchbus_edge.mcp.endpoint import McpEndpoint
from searchbus_edge.mcp.messages import encode_result
from searchbus_edge.mcp.running import RunningRequests
from searchbus_edge.settings import EdgeSettings
from searchbus_edge.tools.admission import AddressRules, HttpPolicy
from searchbus_edge.tools.audit import AuditLog
from searchbus_edge.tools.limits import LocalLimiter
from searchbus_edge.tools.resolve import Resolver
from searchbus_edge.tools.telemetry import Tracing

LIST = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/list"}).encode()
CALL = json.dumps(
    {"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": {"name": "paid"}}
).encode()


class Keys:
    def verify(self, key):
        if key == "bad":
            raise UnauthenticatedError("Unknown.")
        return Identity(Actor(subject=key, roles=("PAYER",) if key == "payer" else ()), 0.0)


class Way:
    """Stands for both ways: records what it serves and answers."""

    def __init__(self) -> None:
        self.served = []
        self.page = None

    def ready(self, received, request):
        return self.page

    async def serve(self, received, request, answer, target):
        self.served.append((received, request))
        await answer.finish(encode_result(request.id, "ok"))
        return True


@pytest.fixture
def way():
    return Way()


@pytest.fixture
def post(way, make_tool, clock):
    """Sends a request to an endpoint; returns (status, headers, body)."""
    view = View((0, True), tools={"paid": make_tool("paid", required_roles=("ROLE_PAYER",))})
    view.tools["call_tool"] = make_tool("call_tool", toolset=LAZY)
    server = SimpleNamespace(
        view=view, joins=False, mcp=SimpleNamespace(server_info_stamp={}),
        largest_request=lambda: view.max_request_bytes,
    )  # fmt: skip
    resolver = Resolver(SimpleNamespace(view=lambda toolset: view))
    server.calls = SimpleNamespace(resolver=resolver)
    audit = AuditLog()
    policy = HttpPolicy(
        authenticator=Authenticator(keys=Keys(), resource_url="https://x.example"),
        abuse=LocalLimiter(1, 3, clock=clock),
        tracing=Tracing(trust=False),
        addresses=AddressRules(["x.example"], []),
        limits=BodyLimits(1000, 1000),
        audit=audit,
    )
    running = RunningRequests(MemoryBroker().connect(), b"key", service="connector")
    tested = McpEndpoint("/mcp", server, policy, running)
    tested._fast = way

    async def send_request(*chunks, key="alice", method="POST", headers=(), more=()):
        pending = [
            {"type": "http.request", "body": chunk, "more_body": number + 1 < len(chunks)}
            for number, chunk in enumerate(chunks or (b"",))
        ]
        events = []

        async def receive():
            return pending.pop(0) if pending else {"type": "http.disconnect"}

        async def send(event):
            events.append(event)

        given = {b"host": b"x.example", b"accept": b"*/*", b"content-type": b"application/json",
                 **({b"authorization": f"Bearer {key}".encode()} if key else {}),
                 **dict(headers)}  # fmt: skip
        scope = {"type": "http", "method": method, "path": "/mcp", "client": ("10.0.0.1", 5),
                 "headers": [*given.items(), *more]}  # fmt: skip
        await tested(scope, receive, send)
        text = b"".join(event.get("body", b"") for event in events)
        return events[0]["status"], dict(events[0]["headers"]), text

    yield send_request
    audit.close()


@pytest.mark.parametrize("method", ["GET", "DELETE", "PUT", "HEAD", "OPTIONS"])
async def test_other_methods_are_refused(post, way, method):
    """A stateless endpoint has no stream to open and no session to end."""
    status, headers, body = await post(method=method)
    assert (status, headers[b"allow"]) == (405, b"POST")
    assert b"Use POST" in body
    assert way.served == []


async def test_request_is_served_for_its_caller(post, way):
    """And trailing spaces of header values are removed."""
    status, *_ = await post(LIST, headers=[(b"mcp-protocol-version", b"2025-06-18 ")])
    assert status == 200
    ((received, request),) = way.served
    assert (received.actor.subject, request.method) == ("alice", "tools/list")
    assert received.head.revision == "2025-06-18"


async def test_page_at_hand_passes_every_check(post, way):
    """A page that was made before is answered, to those who would get it when it is made."""
    way.page = encode_result(1, "kept")
    status, _, body = await post(LIST)
    assert (status, json.loads(body)["result"], way.served) == (200, "kept", [])
    assert (await post(LIST, key="bad"))[0] == 401
    assert (await post(LIST, headers=[(b"host", b"evil.example")]))[0] == 421
    assert (await post(LIST))[0] == 200
    assert (await post(LIST))[0] == 429
    assert way.served == []


@pytest.mark.parametrize("key", [None, "bad"])
async def test_request_without_a_valid_credential_is_refused(post, way, key):
    """401 with the address of the metadata."""
    status, headers, body = await post(LIST, key=key)
    assert status == 401
    assert b"oauth-protected-resource/mcp" in headers[b"www-authenticate"]
    assert json.loads(body)["error"]["code"] == -31401
    assert way.served == []


@pytest.mark.parametrize("second", [b"Bearer alice", b"Bearer bob", b""])
async def test_two_credentials_are_refused(post, way, second):
    """400: a proxy before the edge may have checked the other one."""
    status, _, body = await post(LIST, more=[(b"authorization", second)])
    assert (status, json.loads(body)["error"]["code"]) == (400, -32600)
    assert b"one Authorization header" in body
    assert way.served == []


async def test_request_for_changes_is_small(post, way, monkeypatch):
    """It is kept as long as its client listens; whatever makes it large."""
    monkeypatch.setattr(endpoint, "MAX_LISTEN_BYTES", 100)
    for method, expected in (("subscriptions/listen", 413), ("tools/list", 200)):
        body = {"jsonrpc": "2.0", "id": 1, "method": method, "more": "x" * 100}
        assert (await post(json.dumps(body).encode()))[0] == expected
    assert [request.method for _, request in way.served] == ["tools/list"]


async def test_missing_role_is_an_http_status(post, way):
    """403 with the scope and the id of the request; with the role it passes."""
    status, headers, body = await post(CALL)
    assert status == 403
    assert b'scope="ROLE_PAYER"' in headers[b"www-authenticate"]
    answer = json.loads(body)
    assert (answer["id"], answer["error"]["message"]) == (
        7, "forbidden: The role ROLE_PAYER is needed.",
    )  # fmt: skip
    assert way.served == []
    assert (await post(CALL, key="payer"))[0] == 200


async def test_missing_role_reads_the_same_through_call_tool(post, way):
    """It is the role of the tool that call_tool is to call."""
    direct = await post(CALL)
    assert await post(_lazily("paid")) == direct
    assert way.served == []
    assert (await post(_lazily("paid"), key="payer"))[0] == 200
    assert (await post(_lazily("absent"), key="bob"))[0] == 200
    assert (await post(_lazily(["paid"]), key="bob"))[0] == 200


def _lazily(name) -> bytes:
    params = {"name": "call_tool", "arguments": {"name": name, "arguments": {}}}
    return json.dumps(
        {"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": params}
    ).encode()


async def test_too_many_requests_of_one_caller_are_refused(post, clock):
    """429 with the time to wait; other callers are served."""
    assert [(await post(LIST))[0] for _ in range(4)] == [200, 200, 200, 429]
    _, headers, body = await post(LIST)
    assert headers[b"retry-after"] in (b"1", b"2")
    assert json.loads(body)["error"]["code"] == -31429
    assert (await post(LIST, key="bob"))[0] == 200
    clock.now_s += 1.0
    assert (await post(LIST))[0] == 200


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ([(b"host", b"evil.example")], 421),
        ([(b"origin", b"http://evil.example")], 403),
        ([(b"content-type", b"text/plain")], 400),
        ([(b"accept", b"text/html")], 406),
        ([(b"content-length", b"1001")], 413),
    ],
)
async def test_transport_rules_come_before_the_body(post, way, headers, status):
    """Each with a JSON-RPC error."""
    found, _, body = await post(LIST, headers=headers)
    assert (found, json.loads(body)["error"]["code"]) == (status, -32600)
    assert way.served == []


async def test_body_in_chunks_arrives_whole(post, way):
    """It is parsed once."""
    assert (await post(LIST[:10], LIST[10:20], LIST[20:]))[0] == 200
    assert way.served[0][1].method == "tools/list"


@pytest.mark.parametrize("chunks", [(b"x" * 1001,), (b"x" * 600, b"x" * 600)])
async def test_large_body_is_refused(post, way, chunks):
    """413 before it is parsed."""
    status, _, body = await post(*chunks)
    assert status == 413
    assert b"over 1000 bytes" in body
    assert way.served == []


async def test_bad_envelope_is_refused(post, way):
    """400 with the field."""
    status, _, body = await post(LIST.replace(b'"id": 1', b'"id": 1.5'))
    assert (status, json.loads(body)["error"]["code"]) == (400, -32600)
    assert way.served == []


async def test_each_message_of_a_batch_is_served(post, way):
    """Where the revision has batches."""
    batch = b"  [" + LIST + b"," + LIST.replace(b"1", b"2") + b"]"
    assert (await post(batch))[0] == 200
    assert [request.id for _, request in way.served] == [1, 2]
    status, _, body = await post(batch, headers=[(b"mcp-protocol-version", b"2025-06-18")])
    assert (status, json.loads(body)["error"]["code"]) == (400, -32600)


async def test_endpoints_are_made_at_their_first_request(bus, directory, tmp_path):
    """One each; unknown toolsets have none; no task is needed."""
    before = asyncio.all_tasks()
    async with open_edge(bus, EdgeSettings(_env_file=None, data_dir=tmp_path)) as edge:
        running = asyncio.all_tasks()
        first = edge.endpoints.get("dictionary")
        assert first is edge.endpoints.get("dictionary")
        assert first is not edge.endpoints.get(None)
        assert edge.endpoints.get("absent") is None
        assert asyncio.all_tasks() == running
    await asyncio.sleep(0)
    assert [task for task in asyncio.all_tasks() - before if not task.done()] == []


@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
@pytest.mark.parametrize("accept", ["application/json", "text/event-stream"])
async def test_client_gets_the_one_form_that_it_accepts(running, revision, accept):
    """JSON or an event stream, on every revision."""
    params = {"name": "say", "arguments": {}}
    headers = {"Accept": accept, "MCP-Protocol-Version": revision}
    if revision >= "2026":
        headers |= {"Mcp-Method": "tools/call", "Mcp-Name": "say"}
        params["_meta"] = {
            "io.modelcontextprotocol/protocolVersion": revision,
            "io.modelcontextprotocol/clientCapabilities": {},
        }
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    async with httpx.AsyncClient(base_url=running.url) as http:
        response = await http.post("/mcp", json=body, headers=headers)
    assert response.headers["content-type"] == accept
    assert '"hello"' in response.text


async def test_messages_of_a_batch_count_as_requests(post, way):
    """Otherwise one request would bring fifty times what its caller may send."""
    messages = [LIST.replace(b"1", b"%d" % number) for number in range(2, 7)]
    status, _, body = await post(b"[" + b",".join(messages) + b"]")
    assert status == 200
    assert len(way.served) == 3
    assert body.count(b"-31429") == 2
    assert (await post(LIST))[0] == 429
