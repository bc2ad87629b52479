"""tools/search by the fast way is what the kernel answers."""

from __future__ import annotations

import httpx
import pytest

from searchbus_bus import Call, Worker, endpoint
from searchbus_contracts import (
    ErrorCode,
    Fault,
)
from searchbus_contracts.toolindex import FindReply, FindRequest, Found
from searchbus_edge.mcp.fast_search import FastSearch
from searchbus_testing import known

MODERN = "2026-07-28"


SEARCHED = ["2025-06-18", "2025-11-25", MODERN]


FAULTS = {
    "busy": Fault(ErrorCode.OVERLOADED, "Busy.", retry_after_ms=10),
    "changed": Fault(ErrorCode.INVALID_ARGUMENT, "The catalogue has changed."),
}


class Index:
    """Finds every tool of the dictionary, a page at a time, also a hidden and an unknown one."""

    @endpoint
    async def search(self, call: Call, request: FindRequest) -> FindReply:
        if request.query in FAULTS:
            raise FAULTS[request.query]
        names = ["look_up", "secret", "say", "gone", "list_words"]
        found = tuple(Found(toolset="dictionary", name=n, score=1.0, cosine=1.0) for n in names)
        page = found[request.offset :] if request.query == "few" else found
        return FindReply(generation="g", found=page, total=5 if request.query == "few" else 30)


@pytest.fixture
async def search(running, monkeypatch):
    """Sends tools/search by both ways; returns (whether the fast way served it, both answers)."""
    served, serve = [], FastSearch.serve
    way = {"fast": True}

    async def counting(self, *arguments):
        found = await serve(self, *arguments) if way["fast"] else False
        served.append(found)
        return found

    monkeypatch.setattr(FastSearch, "serve", counting)
    worker = Worker("toolindex")
    worker.add(Index())

    async def offer_search():
        await running.broker.connect(name="toolindex").serve(worker)
        await known(running.edge.directory, "toolindex")

    async def send(params, revision, *, index=True, name="tools/search", path="/mcp"):
        if index:
            await offer_search()
        headers = {"Accept": "application/json, text/event-stream", "Mcp-Method": name}
        if revision is not None:
            headers["MCP-Protocol-Version"] = revision
        if revision == MODERN:
            envelope = {
                "io.modelcontextprotocol/protocolVersion": revision,
                "io.modelcontextprotocol/clientInfo": {"name": "t", "version": "1"},
                "io.modelcontextprotocol/clientCapabilities": {},
            }
            params = {**params, "_meta": envelope}
        body = {"jsonrpc": "2.0", "id": 7, "method": "tools/search", "params": params}
        responses = []
        served.clear()
        async with httpx.AsyncClient(base_url=running.url, timeout=60) as http:
            for fast in (True, True, False):  # the second one finds its tools rendered
                way["fast"] = fast
                responses.append(await http.post(path, json=body, headers=headers))
        forms = {(r.status_code, r.headers["content-type"]) for r in responses}
        assert len(forms) == 1, forms
        one, two, kernel = (response.json() for response in responses)
        assert one == two == kernel
        return served[0], kernel

    return send


@pytest.mark.parametrize("revision", SEARCHED)
@pytest.mark.parametrize("path", ["/mcp", "/mcp/dictionary"])
async def test_a_page_is_that_of_the_kernel(search, revision, path):
    """With the visible tools that are listed, in order, and the cursor of the next page."""
    fast, answer = await search({"query": "words"}, revision, path=path)
    assert fast
    assert [t["name"] for t in answer["result"]["tools"]] == ["look_up", "say", "list_words"]
    cursor = answer["result"]["nextCursor"]
    fast, answer = await search({"query": "words", "cursor": cursor}, revision, path=path)
    assert fast
    assert "result" in answer


@pytest.mark.parametrize("revision", SEARCHED)
@pytest.mark.parametrize(
    ("params", "code"),
    [
        ({"query": "busy"}, -31503),
        ({"query": "changed"}, -32602),
        ({"query": " "}, -32602),
        ({"query": "x", "cursor": "forged"}, -32602),
    ],
)
async def test_failures_are_those_of_the_kernel(search, revision, params, code):
    """Code, message, data and status."""
    fast, answer = await search(params, revision)
    assert fast
    assert answer["error"]["code"] == code


@pytest.mark.parametrize("revision", SEARCHED)
async def test_last_page_has_no_cursor(search, revision):
    """The key is left out."""
    _, answer = await search({"query": "few"}, revision)
    assert "nextCursor" not in answer["result"]


@pytest.mark.parametrize("revision", SEARCHED)
async def test_without_an_index_the_method_is_unknown(search, revision):
    """As for the kernel."""
    fast, answer = await search({"query": "words"}, revision, index=False)
    assert fast
    assert answer["error"]["code"] == -32601


@pytest.mark.parametrize(
    ("params", "revision", "header"),
    [
        ({}, "2025-11-25", "tools/search"),
        ({"query": 5}, MODERN, "tools/search"),
        ({"query": "words", "more": 1}, MODERN, "tools/search"),
        ({"query": "words", "_meta": {"other": 1}}, "2025-11-25", "tools/search"),
        ({"query": "words"}, MODERN, "tools/list"),
        ({"query": "words"}, "2025-03-26", "tools/search"),
        ({"query": "words"}, None, "tools/search"),
        ({"query": "words"}, "2031-01-01", "tools/search"),
    ],
)
async def test_what_is_odd_is_left_to_the_kernel(search, params, revision, header):
    """Unknown fields, wrong types, wrong headers, old revisions."""
    fast, _ = await search(params, revision, name=header)
    assert not fast
