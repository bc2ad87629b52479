"""What is checked before a message reaches the MCP transport."""

from __future__ import annotations

import json
from types import SimpleNamespace

import pytest
from searchbus_edge.http.guard import McpGuard

from searchbus_contracts import Actor
from searchbus_edge.auth.authenticator import Authenticator
from searchbus_edge.auth.identity import ACTOR_KEY, Identity, Unauthenticated
from searchbus_edge.calls.limits import LocalLimiter
from searchbus_edge.calls.telemetry import Tracing
from searchbus_edge.lists.view import View

LIST = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/list"}).encode()
CALL = json.dumps(
    {"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": {"name": "paid"}}
).encode()


class Keys:
    def verify(self, key):
        if key == "bad":
            raise Unauthenticated("Unknown.")
        return Identity(Actor(subject=key, roles=("PAYER",) if key == "payer" else ()), 0.0)


class Transport:
    """Records what arrives and answers 200."""

    def __init__(self):
        self.scopes, self.bodies = [], []

    async def __call__(self, scope, receive, send):
        self.scopes.append(scope)
        self.bodies.append((await receive()).get("body"))
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"ok"})


@pytest.fixture
def transport():
    return Transport()


@pytest.fixture
def post(transport, make_tool, clock):
    """Sends a request through a guard; returns (status, headers, JSON body)."""
    view = View((0, True), tools={"paid": make_tool("paid", required_roles=("ROLE_PAYER",))})
    guard = McpGuard(
        transport,
        SimpleNamespace(view=view),
        authenticator=Authenticator(keys=Keys(), resource_url="https://x.example"),
        abuse=LocalLimiter(1, 3, clock=clock),
        tracing=Tracing(trust=False),
        body_limit_bytes=1000,
    )

    async def send_request(*chunks, key="alice", method="POST", headers=()):
        pending = [
            {"type": "http.request", "body": chunk, "more_body": number + 1 < len(chunks)}
            for number, chunk in enumerate(chunks or (b"",))
        ]
        events = []

        async def receive():
            return pending.pop(0) if pending else {"type": "http.disconnect"}

        async def send(event):
            events.append(event)

        authorization = [(b"authorization", f"Bearer {key}".encode())] if key else []
        scope = {"type": "http", "method": method, "path": "/mcp", "client": ("10.0.0.1", 5),
                 "headers": [*authorization, *headers]}  # fmt: skip
        await guard(scope, receive, send)
        text = b"".join(event.get("body", b"") for event in events)
        return events[0]["status"], dict(events[0]["headers"]), text

    return send_request


@pytest.mark.parametrize("method", ["GET", "DELETE", "PUT"])
async def test_other_methods_are_refused(post, transport, method):
    """A stateless endpoint has no stream to open and no session to end."""
    status, headers, body = await post(method=method)
    assert (status, headers[b"allow"]) == (405, b"POST")
    assert b"Use POST" in body
    assert transport.scopes == []


async def test_caller_is_put_into_the_scope(post, transport):
    """And trailing spaces of header values are removed."""
    status, *_ = await post(LIST, headers=[(b"mcp-protocol-version", b"2025-06-18 ")])
    assert status == 200
    assert transport.scopes[0][ACTOR_KEY].subject == "alice"
    assert dict(transport.scopes[0]["headers"])[b"mcp-protocol-version"] == b"2025-06-18"


@pytest.mark.parametrize("key", [None, "bad"])
async def test_request_without_a_valid_credential_is_refused(post, transport, key):
    """401 with the address of the metadata."""
    status, headers, body = await post(LIST, key=key)
    assert status == 401
    assert b"oauth-protected-resource/mcp" in headers[b"www-authenticate"]
    assert json.loads(body)["error"]["code"] == -31401
    assert transport.scopes == []


async def test_missing_role_is_an_http_status(post, transport):
    """403 with the scope and the id of the request; with the role it passes."""
    status, headers, body = await post(CALL)
    assert status == 403
    assert b'scope="PAYER"' in headers[b"www-authenticate"]
    assert json.loads(body)["id"] == 7
    assert transport.scopes == []
    assert (await post(CALL, key="payer"))[0] == 200


async def test_too_many_requests_of_one_caller_are_refused(post, clock):
    """429 with the time to wait; other callers are served."""
    assert [(await post(LIST))[0] for _ in range(4)] == [200, 200, 200, 429]
    _, headers, body = await post(LIST)
    assert headers[b"retry-after"] == b"1" or headers[b"retry-after"] == b"2"
    assert json.loads(body)["error"]["code"] == -31429
    assert (await post(LIST, key="bob"))[0] == 200
    clock.now_s += 1.0
    assert (await post(LIST))[0] == 200


async def test_body_in_chunks_arrives_whole(post, transport):
    """The transport reads it once."""
    assert (await post(LIST[:10], LIST[10:20], LIST[20:]))[0] == 200
    assert transport.bodies == [LIST]


@pytest.mark.parametrize("chunks", [(b"x" * 1001,), (b"x" * 600, b"x" * 600)])
async def test_large_body_is_refused(post, transport, chunks):
    """413 before it is parsed."""
    status, _, body = await post(*chunks)
    assert status == 413
    assert b"over 1000 bytes" in body
    assert transport.scopes == []


async def test_bad_envelope_is_refused(post, transport):
    """400 with the field."""
    bad = LIST.replace(b'"id": 1', b'"id": 1.5')
    status, _, body = await post(bad)
    assert (status, json.loads(body)["error"]["code"]) == (400, -32600)
    assert transport.scopes == []


async def test_batch_is_passed_message_by_message(post, transport):
    """Each with its own body."""
    await post(b"  [" + LIST + b"," + LIST.replace(b"1", b"2") + b"]")
    assert [json.loads(body)["method"] for body in transport.bodies] == ["tools/list"] * 2
