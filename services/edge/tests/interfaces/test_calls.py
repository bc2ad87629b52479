"""Calls of plain HTTP: one pipeline with MCP."""

from __future__ import annotations

import json
from types import SimpleNamespace

import pytest
from mcp.shared.exceptions import MCPError

from searchbus_contracts import Actor, Fault, TextContent, ToolReply
from searchbus_contracts.tools import InputRequired
from searchbus_edge.auth.authenticator import Authenticator
from searchbus_edge.auth.identity import Identity
from searchbus_edge.http.body import BodyLimits
from searchbus_edge.http.faults import HttpError
from searchbus_edge.interfaces.calls import HttpCalls, read_arguments
from searchbus_edge.settings import EdgeSettings
from searchbus_edge.tools.admission import AddressRules, HttpPolicy
from searchbus_edge.tools.audit import AuditLog
from searchbus_edge.tools.call import Served
from searchbus_edge.tools.faults import failed_reply, internal_error
from searchbus_edge.tools.limits import LocalLimiter
from searchbus_edge.tools.reply import Reply
from searchbus_edge.tools.resolve import Resolver
from searchbus_edge.tools.telemetry import Tracing


@pytest.fixture
def calls(running):
    """Those of a running edge."""
    return running.edge.http_calls


def scope(**headers):
    given = {"host": "127.0.0.1", "content_type": "application/json"} | headers
    pairs = [(k.replace("_", "-").encode(), v.encode()) for k, v in given.items()]
    return {"headers": pairs, "client": ("127.0.0.1", 5)}


def receiver(*parts):
    pending = [
        {"type": "http.request", "body": part, "more_body": number + 1 < len(parts)}
        for number, part in enumerate(parts or (b"",))
    ]

    async def receive():
        return pending.pop(0)

    return receive


async def test_call_gives_the_reply_of_the_tool(calls):
    """By its name on /mcp, or by its own name in a toolset."""
    received = await calls.admit(scope())
    arguments = read_arguments(await calls.json(received, receiver(b'{"word":', b'"bus"}')))
    served = await calls.call(received, calls.everything, "look_up", arguments)
    assert served.reply.value == {"word": "bus", "sense": "é ✓"}
    served = await calls.call(received, calls.toolset("atlas"), "look_up", {})
    assert served.reply.content[0].text == "from the atlas"
    assert calls.toolset("absent") is None


@pytest.mark.parametrize(
    ("name", "arguments", "code"),
    [
        ("look_up", {"word": 5}, "invalid_argument"),
        ("absent", {}, "not_found"),
        ("secret", {}, "not_found"),
        ("fail", {}, "rate_limited"),
        ("crash", {}, "internal"),
        ("brief", {}, "deadline_exceeded"),
    ],
)
async def test_failure_has_the_code_of_mcp(calls, name, arguments, code):
    """What is inside of an exception is not shown."""
    received = await calls.admit(scope())
    with pytest.raises(Fault) as raised:
        await calls.call(received, calls.everything, name, arguments)
    assert raised.value.code == code
    assert "canary" not in raised.value.failure.message


class OneReply:
    """Calls that end with this reply or error."""

    def __init__(self, reply, resolver):
        self._reply = reply
        self.resolver = resolver

    async def call(self, request):
        if isinstance(self._reply, Exception):
            raise self._reply
        return Served(None, Reply.of(self._reply))


@pytest.mark.parametrize(
    ("reply", "code", "text"),
    [
        (failed_reply(Fault("upstream_limited", "Wait.", retry_after_ms=900)),
         "upstream_limited", "Wait."),
        (ToolReply(content=(TextContent(text="No such file."),), is_error=True),
         "tool_error", "No such file."),
        (ToolReply(structured={"error": "no"}, is_error=True), "tool_error", "reports a failure"),
        (ToolReply(input_required=InputRequired(requests={})), "invalid_argument", "/mcp"),
        (MCPError(-32021, "The tool needs a client."), "invalid_argument", "/mcp"),
        (internal_error(), "internal", "trace"),
    ],
)  # fmt: skip
async def test_failure_of_a_tool_keeps_its_fields(running, calls, reply, code, text):
    """A tool that fails in its own words is not our failure; one that asks its client needs MCP."""
    edge = running.edge
    received = await calls.admit(scope())
    calls = HttpCalls(edge.registry, OneReply(reply, Resolver(edge.registry)), edge.policy)
    with pytest.raises(Fault, match=text) as raised:
        await calls.call(received, calls.everything, "say", {})
    assert raised.value.code == code
    if code == "upstream_limited":
        assert (raised.value.failure.retryable, raised.value.failure.retry_after_ms) == (True, 900)


async def test_unknown_tool_says_where_tools_are_listed(calls):
    """Not by the name of a method of MCP."""
    received = await calls.admit(scope())
    with pytest.raises(Fault, match=r"Unknown tool: absent. GET /openapi.json lists"):
        await calls.call(received, calls.everything, "absent", {})


async def test_calls_within_a_request_share_its_span(calls, monkeypatch):
    """One message, however many calls; a failure of one is a problem all the same."""
    received = await calls.admit(scope())
    opened = []
    message = HttpCalls.message
    monkeypatch.setattr(
        HttpCalls, "message", lambda self, *args: opened.append(args) or message(self, *args)
    )
    with calls.message(received, "tools/call"):
        for _ in range(2):
            await calls.call(received, calls.everything, "look_up", {"word": "a"}, inside=True)
        with pytest.raises(Fault):
            await calls.call(received, calls.everything, "fail", {}, inside=True)
    assert len(opened) == 1
    await calls.call(received, calls.everything, "look_up", {"word": "a"})
    assert len(opened) == 2


@pytest.mark.parametrize(
    ("body", "headers", "status"),
    [
        (b"{", {}, 400),
        (b"[]", {}, 400),
        (b"{}", {"content_type": "text/plain"}, 415),
        (b"{}", {"content_encoding": "gzip"}, 415),
        (json.dumps({"a": "x" * 300_000}).encode(), {}, 413),
        (b'{"a":[' + b'"",' * 20_001 + b'""]}', {}, 413),
    ],
)
async def test_body_is_read_within_the_limits_of_mcp(calls, body, headers, status):
    """A JSON object of the usual size."""
    received = await calls.admit(scope(**headers))
    with pytest.raises(HttpError) as raised:
        read_arguments(await calls.json(received, receiver(body)))
    assert raised.value.status == status


async def test_encoding_that_changes_nothing_is_accepted(calls):
    """Its name has no case."""
    received = await calls.admit(scope(content_encoding="Identity"))
    assert await calls.json(received, receiver(b"{}")) == b"{}"


@pytest.mark.parametrize("name", ["big", "call_tool"])
async def test_tool_may_allow_a_larger_body(calls, make_tool, name):
    """As it declares, also where call_tool names it; no body stands for no arguments."""
    body = json.dumps({"name": "big", "a": "x" * 300_000}).encode()
    received, view = await calls.admit(scope()), calls.everything
    view.tools["big"] = make_tool("big", max_request_bytes=400_000)
    view.tools["call_tool"] = make_tool("call_tool", toolset="lazy")
    vars(view)["max_request_bytes"] = 400_000  # as if it were listed
    found = await calls.arguments(received, receiver(body), view, name)
    assert len(found["a"]) == 300_000
    assert await calls.arguments(received, receiver(), view, name) == {}
    with pytest.raises(HttpError) as raised:
        await calls.arguments(received, receiver(body), view, "say")
    assert raised.value.status == 413


async def test_body_of_another_media_type_is_given_as_it_is(calls):
    """For interfaces with forms."""
    received = await calls.admit(scope(content_type="application/x-www-form-urlencoded"))
    assert await calls.body(received, receiver(b"q=a")) == b"q=a"


async def test_stranger_is_refused(calls):
    """By Host, as for MCP."""
    with pytest.raises(HttpError) as raised:
        await calls.admit(scope(host="evil.example"))
    assert raised.value.status == 421


async def test_missing_role_is_forbidden_to_a_known_caller(running, make_tool):
    """Of the tool itself, and of the one that call_tool is to call."""
    audit = AuditLog()
    policy = HttpPolicy(
        authenticator=Authenticator(keys=_Keys(), resource_url="https://x.example"),
        abuse=LocalLimiter(0, 1), tracing=Tracing(trust=False),
        addresses=AddressRules(EdgeSettings().hosts, []), limits=BodyLimits(1000, 1000),
        audit=audit,
    )  # fmt: skip
    tools = SimpleNamespace(resolver=Resolver(running.edge.registry))
    calls = HttpCalls(running.edge.registry, tools, policy)
    received = await calls.admit(scope(authorization="Bearer alice"))
    lazy = make_tool("call_tool", toolset="lazy")
    calls.everything.tools["call_tool"] = lazy
    for name, arguments in (("secret", {}), ("call_tool", {"name": "secret"})):
        with pytest.raises(HttpError) as raised:
            await calls.call(received, calls.everything, name, arguments)
        assert (raised.value.status, raised.value.failure.code) == (403, "forbidden")
        assert b'scope="NOBODY"' in dict(raised.value.headers)[b"www-authenticate"]
    audit.close()


class _Keys:
    def verify(self, key):
        return Identity(Actor(subject=key), 0.0)
