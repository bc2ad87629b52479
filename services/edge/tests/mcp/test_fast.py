"""The fast way answers as the SDK's kernel does, and leaves the rest to it."""

from __future__ import annotations

import json

import httpx
import pytest

from searchbus_bus import Worker
from searchbus_contracts import (
    InputRequired,
    ResourceBody,
    TextContent,
    ToolDescriptor,
    ToolReply,
)
from searchbus_contracts.tools import AudioContent, EmbeddedResource, ImageContent, ResourceLink
from searchbus_edge.mcp import fast
from searchbus_edge.mcp.fast import FastWay
from searchbus_edge.mcp.kernel import Kernel
from searchbus_edge.tools.telemetry import Tracing
from searchbus_testing import known

REVISIONS = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28", None]
MODERN = "2026-07-28"
ACCEPT = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json"}
KINDS = ToolReply(
    content=(
        TextContent(text="é"),
        ImageContent(data="AA==", mime_type="image/png"),
        AudioContent(data="AA==", mime_type="audio/wav"),
        EmbeddedResource(resource=ResourceBody(uri="a://b", text="t")),
        ResourceLink(uri="a://b", name="b"),
        TextContent(text="noted", annotations={"audience": ["user"]}),
    ),
    structured={"a": [None, 1.5]},
    meta={"example.org/x": 1},
)
PLAIN = ToolReply(content=KINDS.content[:1], structured=KINDS.structured, meta=KINDS.meta)


@pytest.fixture
async def kinds(running):
    """A worker whose tools reply with every kind of content."""
    worker = Worker("kinds")
    for name, reply in (("kinds", KINDS), ("plain", PLAIN)):

        async def answer(call, request, reply=reply):
            return reply

        schema = {"type": "object", "properties": {"a": {"type": "integer"}}}
        if name == "kinds":
            schema["properties"]["region"] = {"type": "string", "x-mcp-header": "Region"}
        worker.add_tool(
            ToolDescriptor(name=name, toolset="kinds", description="x", input_schema=schema), answer
        )
    await running.broker.connect(name="kinds").serve(worker)
    await known(running.edge.directory, "kinds")


@pytest.fixture
async def post(running, monkeypatch):
    """Sends a request by both ways; returns (whether the fast way served it, both responses)."""
    served, serve, ready = [], FastWay.serve, FastWay.ready
    way = {"fast": True}

    def counting_ready(self, *arguments):
        found = ready(self, *arguments) if way["fast"] else None
        if found is not None:
            served.append(True)
        return found

    async def counting(self, *arguments):
        found = await serve(self, *arguments) if way["fast"] else False
        served.append(found)
        return found

    monkeypatch.setattr(FastWay, "serve", counting)
    monkeypatch.setattr(FastWay, "ready", counting_ready)

    async def send(method, params, revision, *, headers=None, meta=None, path="/mcp"):
        headers = {**ACCEPT, **(headers or {})}
        if revision is not None:
            headers["MCP-Protocol-Version"] = revision
        if revision == MODERN:
            headers = {"Mcp-Method": method, **headers}
            if "name" in params:
                headers = {"Mcp-Name": params["name"], **headers}
            envelope = {
                "io.modelcontextprotocol/protocolVersion": revision,
                "io.modelcontextprotocol/clientInfo": {"name": "t", "version": "1"},
                "io.modelcontextprotocol/clientCapabilities": {"sampling": {}},
            }
            params = {**params, "_meta": {**envelope, **(meta or {})}}
        elif meta is not None:
            params = {**params, "_meta": meta}
        body = {"jsonrpc": "2.0", "id": "x", "method": method, "params": params}
        responses = []
        served.clear()
        async with httpx.AsyncClient(base_url=running.url, timeout=60) as http:
            for fast in (True, True, False):  # the second answer may come from a cache
                way["fast"] = fast
                responses.append(await http.post(path, json=body, headers=headers))
        return served[0], responses

    return send


def same(responses) -> dict:
    """The one answer that all ways gave."""
    forms = [(r.status_code, r.headers["content-type"]) for r in responses]
    assert len(set(forms)) == 1, [(r.status_code, r.text) for r in responses]
    if "event-stream" in forms[0][1]:
        assert len({r.text.count("data:") for r in responses}) == 1
        values = [[json.loads(line[5:]) for line in r.text.splitlines() if line.startswith("data:")]
                  for r in responses]  # fmt: skip
    else:
        values = [r.json() for r in responses]
    if "Report it with trace" in str(values):  # of its own in each
        return values[0]
    assert values[0] == values[1] == values[2]
    return values[0]


CALLS = [
    ("look_up", {"word": "bus"}),
    ("look_up", {"word": "bus", "count": "3"}),
    ("look_up", {"word": 5, "count": 99, "extra": 1}),
    ("list_words", {"word": "b", "count": 2}),
    ("say", {}),
    ("fail", {}),
    ("crash", {}),
    ("secret", {}),
    ("absent", {}),
    ("kinds", {}),
    ("plain", {"a": 1}),
    ("plain", {"a": "1"}),
]


@pytest.mark.parametrize("revision", REVISIONS)
@pytest.mark.parametrize(("name", "arguments"), CALLS)
async def test_calls_are_answered_as_by_the_kernel(post, kinds, name, arguments, revision):
    """Results, failures, errors, every kind of content, on every revision."""
    fast, responses = await post("tools/call", {"name": name, "arguments": arguments}, revision)
    assert same(responses)["id"] == "x"
    assert fast is (revision in ("2025-06-18", "2025-11-25", MODERN) and name != "kinds")


@pytest.mark.parametrize("revision", REVISIONS)
@pytest.mark.parametrize(
    "method", ["tools/list", "prompts/list", "resources/templates/list", "ping"]
)
@pytest.mark.parametrize("path", ["/mcp", "/mcp/dictionary"])
async def test_lists_are_answered_as_by_the_kernel(post, kinds, method, path, revision):
    """Also the second time, when no list is made. ping is gone in 2026-07-28."""
    fast, responses = await post(method, {}, revision, path=path)
    answer = same(responses)
    assert fast
    assert ("result" in answer) is (method != "ping" or revision != MODERN)


@pytest.mark.parametrize("revision", ["2025-11-25", MODERN])
async def test_list_that_fails_is_served_once(post, running, monkeypatch, revision):
    """One span, whichever way finds what is wrong."""
    messages, message = [], Tracing.message

    def counted(self, method, *fields, **options):
        messages.append(method)
        return message(self, method, *fields, **options)

    monkeypatch.setattr(Tracing, "message", counted)
    _, responses = await post("tools/list", {"cursor": "unknown"}, revision)
    assert same(responses)["error"]["code"] == -32602
    assert messages == ["tools/list"] * len(responses)


async def test_page_of_a_batch_is_kept_too(running, monkeypatch):
    """The second batch takes each page from the first."""
    made = []
    result = Kernel.result

    async def counted(self, received, request):
        made.append(request.method)
        return await result(self, received, request)

    monkeypatch.setattr(Kernel, "result", counted)
    methods = ["tools/list", "prompts/list"]
    batch = [{"jsonrpc": "2.0", "id": n, "method": m} for n, m in enumerate(methods)]
    headers = {"Accept": "application/json", "MCP-Protocol-Version": "2025-03-26"}
    async with httpx.AsyncClient(base_url=running.url, timeout=60) as http:
        answers = [(await http.post("/mcp", json=batch, headers=headers)).json() for _ in range(2)]
    assert sorted(made) == sorted(methods)
    by_id = [{answer["id"]: answer["result"] for answer in batch} for batch in answers]
    assert by_id[0] == by_id[1]
    assert set(by_id[0]) == {0, 1}


@pytest.mark.parametrize("revision", ["2025-11-25", MODERN])
async def test_tool_that_asks_for_input(post, running, revision):
    """The client is asked where its revision can answer; else the call fails and says why."""
    sampling = {
        "method": "sampling/createMessage",
        "params": {
            "messages": [{"role": "user", "content": {"type": "text", "text": "Hi"}}],
            "maxTokens": 10,
        },
    }
    calls = []

    async def ask(call, request):
        calls.append(request)
        return ToolReply(input_required=InputRequired(requests={"greeting": sampling}))

    worker = Worker("asking")
    schema = {"type": "object"}
    worker.add_tool(
        ToolDescriptor(name="ask", toolset="asking", description="x", input_schema=schema), ask
    )
    await running.broker.connect(name="asking").serve(worker)
    await known(running.edge.directory, "asking")
    fast, responses = await post("tools/call", {"name": "ask", "arguments": {}}, revision)
    result = same(responses)["result"]
    assert fast
    assert len(calls) == len(responses)  # the kernel renders the reply; it does not call again
    if revision == MODERN:
        assert result["resultType"] == "input_required"
        assert result["inputRequests"]["greeting"]["method"] == "sampling/createMessage"
    else:
        assert result["isError"]
        assert "input from the client" in result["content"][0]["text"]


@pytest.mark.parametrize("running", [{"page_size": 3}], indirect=True)
async def test_pages_are_kept_apart(post, running):
    """By their cursors; an unknown one is refused."""
    _, first = await post("tools/list", {}, "2025-11-25")
    cursor = same(first)["result"]["nextCursor"]
    fast, second = await post("tools/list", {"cursor": cursor}, "2025-11-25")
    assert fast
    assert same(second)["result"]["tools"] != same(first)["result"]["tools"]
    _, bad = await post("tools/list", {"cursor": "x"}, "2025-11-25")
    assert same(bad)["error"]["code"] == -32602


async def test_new_tools_are_listed(post, running, request):
    """A page belongs to one catalogue."""
    _, before = await post("tools/list", {}, "2025-11-25")
    worker = Worker("late")

    async def answer(call, request):
        return ToolReply()

    worker.add_tool(
        ToolDescriptor(name="later", toolset="late", description="x",
                       input_schema={"type": "object"}),
        answer,
    )  # fmt: skip
    await running.broker.connect(name="late").serve(worker)
    await known(running.edge.directory, "late")
    _, after = await post("tools/list", {}, "2025-11-25")
    names = [{t["name"] for t in same(r)["result"]["tools"]} for r in (before, after)]
    assert names[1] - names[0] == {"later"}


@pytest.mark.parametrize("revision", ["2025-11-25", MODERN])
async def test_progress_comes_before_the_result(post, revision):
    """In the same events on both ways; without a token there is none."""
    call = {"name": "steps", "arguments": {}}
    fast, responses = await post("tools/call", call, revision, meta={"progressToken": 7})
    events = same(responses)
    assert fast
    assert [e["params"]["progress"] for e in events[:-1]] == [1, 2, 3]
    assert {e["params"]["progressToken"] for e in events[:-1]} == {7}
    assert events[-1]["result"]["content"][0]["text"] == "done"
    fast, responses = await post("tools/call", call, revision)
    assert fast
    assert same(responses)["result"]["content"][0]["text"] == "done"


ENVELOPE = "io.modelcontextprotocol/"


@pytest.mark.parametrize(
    ("method", "params", "options", "status"),
    [
        ("tools/call", {"name": "say", "arguments": {}}, {"headers": {"Mcp-Name": "fail"}}, 400),
        ("tools/call", {"name": "say", "arguments": {}}, {"headers": {"Mcp-Method": "x"}}, 400),
        ("tools/call", {"name": "say", "arguments": {}}, {"headers": {"Mcp-Name": "=?base64?c2F5?="}},
         200),
        ("tools/call", {"name": "say", "arguments": None}, {}, None),
        ("tools/call", {"name": "say", "arguments": []}, {}, 400),
        ("tools/call", {"name": "say", "unknown": 1}, {}, 200),
        ("tools/call", {"name": "say", "requestState": "x"}, {}, 400),
        ("tools/call", {"name": "say"}, {"meta": {"example.org/x": 1}}, 200),
        ("tools/call", {"name": "say"}, {"meta": {ENVELOPE + "clientInfo": 5}}, 400),
        ("tools/call", {"name": "say"}, {"meta": {ENVELOPE + "clientCapabilities": []}}, 400),
        ("tools/call", {"name": "say"}, {"meta": {ENVELOPE + "protocolVersion": "2025-11-25"}}, 400),
        ("tools/call", {"name": "say"}, {"meta": {ENVELOPE + "logLevel": "info"}}, 200),
        ("tools/call", {"name": "kinds", "arguments": {"region": "eu"}}, {}, 400),
        ("tools/call", {"name": "kinds", "arguments": {"region": "eu"}},
         {"headers": {"Mcp-Param-Region": "eu"}}, 200),
        ("tools/list", {"query": "q"}, {}, 200),
        ("server/discover", {}, {}, 200),
        ("no/such", {}, {}, 404),
    ],
)  # fmt: skip
async def test_what_is_not_understood_goes_to_the_kernel(
    post, kinds, method, params, options, status
):
    """Odd headers, parameters and envelopes: its answers, its errors."""
    fast, responses = await post(method, params, MODERN, **options)
    assert fast is False
    same(responses)
    assert status is None or responses[0].status_code == status


@pytest.mark.parametrize("params", [{"name": "say"}, {"name": "say", "arguments": {"a": "\ud800"}}])
async def test_surrogates_and_missing_arguments(post, params):
    """Neither breaks the edge."""
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params})
    assert "\\ud800" in body or "arguments" not in params
    _, responses = await post("tools/call", {"name": "say"}, "2025-11-25")
    assert same(responses)["result"]["content"][0]["text"] == "hello"


async def test_large_envelopes_of_clients_are_not_kept(post):
    """A thousand of them, each another, would fill the memory."""
    before = fast._capabilities.cache_info().currsize
    for number in range(3):
        info = {"name": f"t{number}", "version": "1" * 5000}
        served, (response, *_) = await post(
            "tools/call", {"name": "say", "arguments": {}}, MODERN,
            meta={"io.modelcontextprotocol/clientInfo": info},
        )  # fmt: skip
        assert (served, response.status_code) == (False, 200)
    assert fast._capabilities.cache_info().currsize == before


async def test_a_ping_with_a_cursor_is_not_kept(running):
    """It may be any text: 512 of 250 KB would be more memory than an edge has."""
    headers = {**ACCEPT, "MCP-Protocol-Version": "2025-11-25"}
    async with httpx.AsyncClient() as client:
        for cursor in ("a", "b", "c"):
            body = {"jsonrpc": "2.0", "id": 1, "method": "ping", "params": {"cursor": cursor}}
            answer = await client.post(f"{running.url}/mcp", json=body, headers=headers)
            assert answer.json()["result"] == {}
    assert not running.edge.endpoints.get(None)._fast._pages._made
