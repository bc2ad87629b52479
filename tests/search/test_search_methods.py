"""tools/search, prompts/search, resources/search as clients see them, on every revision."""

from __future__ import annotations

import json
from typing import Any, Literal

import httpx
import mcp_types as types
import pytest
from mcp import Client
from mcp.shared.exceptions import MCPError

from searchbus_testing import HEADERS, messages, until

from .conftest import add_document, office

MODES = ["legacy", "auto"]


class SearchParams(types.RequestParams):
    query: str
    cursor: str | None = None


class ToolsSearch(types.Request[SearchParams, Literal["tools/search"]]):
    method: Literal["tools/search"] = "tools/search"
    params: SearchParams


class PromptsSearch(types.Request[SearchParams, Literal["prompts/search"]]):
    method: Literal["prompts/search"] = "prompts/search"
    params: SearchParams


class ResourcesSearch(types.Request[SearchParams, Literal["resources/search"]]):
    method: Literal["resources/search"] = "resources/search"
    params: SearchParams


RESULTS: dict[Any, Any] = {
    ToolsSearch: types.ListToolsResult,
    PromptsSearch: types.ListPromptsResult,
    ResourcesSearch: types.ListResourcesResult,
}


async def ask(client: Client, kind: Any, query: str, cursor: str | None = None) -> Any:
    params = SearchParams(query=query, cursor=cursor)
    return await client.session.send_request(kind(params=params), RESULTS[kind])


async def raw(url: str, method: str, params: Any = None, **headers: str) -> Any:
    """One JSON-RPC message by plain HTTP, revision 2025-06-18 by default."""
    body = {"jsonrpc": "2.0", "id": 1, "method": method}
    if params is not None:
        body["params"] = params
    async with httpx.AsyncClient() as http:
        response = await http.post(
            url, json=body, headers={**HEADERS, "MCP-Protocol-Version": "2025-06-18", **headers}
        )
    return messages(response)[-1]


@pytest.mark.parametrize("version", ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"])
async def test_initialize_declares_search(stack, version):
    """`search: true` in each feature area, for clients of every older revision."""
    params = {
        "protocolVersion": version, "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}
    }  # fmt: skip
    result = (await raw(f"{stack.url}/mcp", "initialize", params))["result"]
    assert result["protocolVersion"] == version
    for feature in ("tools", "prompts", "resources"):
        assert result["capabilities"][feature]["search"] is True
    assert "dev.searchbus/search" in result["capabilities"]["extensions"]


async def test_discover_declares_search(stack):
    """On 2026-07-28 as well, where SDK clients can read the extension."""
    async with Client(f"{stack.url}/mcp", mode="auto") as client:
        assert client.protocol_version >= "2026"
        assert client.server_capabilities.extensions["dev.searchbus/search"]["pageSize"] == 10
    meta = {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "t", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {},
    }
    answer = await raw(
        f"{stack.url}/mcp", "server/discover", {"_meta": meta},
        **{"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": "server/discover"},
    )  # fmt: skip
    assert answer["result"]["capabilities"]["tools"]["search"] is True


@pytest.mark.parametrize("mode", MODES)
async def test_sdk_client_calls_all_three(stack, mode):
    """Ranked, in the form of the lists."""
    await add_document(stack.library, "zoo", "okapi/1", "The okapi", "The okapi eats leaves. " * 9)
    async with Client(f"{stack.url}/mcp", mode=mode) as client:
        found = await ask(client, ToolsSearch, "will it rain tomorrow")
        assert found.tools[0].name == "get_forecast"
        assert found.tools[0].input_schema == {"type": "object"}
        assert (await client.call_tool(found.tools[0].name, {})).content[0].text.endswith("called")
        prompts = await ask(client, PromptsSearch, "is this statement true? fact check")
        assert prompts.prompts[0].name == "verify_claim"
        assert [a.name for a in prompts.prompts[0].arguments] == ["claim", "context"]
        resources = await ask(client, ResourcesSearch, "what does an okapi eat")
        assert resources.resources[0].uri == "searchbus://zoo/okapi%2F1"
        body = await client.read_resource(resources.resources[0].uri)
        assert body.contents[0].text.startswith("The okapi eats leaves.")


@pytest.mark.parametrize("mode", MODES)
async def test_tools_list_with_a_query_ranks(stack, mode):
    """`tools/list` with a query asks the same index."""
    answer = await raw(f"{stack.url}/mcp", "tools/list", {"query": "draw a pie chart"})
    assert answer["result"]["tools"][0]["name"] == "create_chart"
    whole = await raw(f"{stack.url}/mcp", "tools/list", {})
    assert len(whole["result"]["tools"]) > len(answer["result"]["tools"])


BAD_PARAMETERS: list[Any] = [
    None, {}, {"query": ""}, {"query": "  "}, {"query": 5}, {"query": None}, {"query": "x" * 2001},
    {"query": "mail", "cursor": "made-up"}, {"query": "mail", "cursor": "%%%"},
    {"query": "mail", "cursor": 7}, {"query": "mail", "cursor": "é"},
]  # fmt: skip


@pytest.mark.parametrize("method", ["tools/search", "prompts/search", "resources/search"])
async def test_bad_parameters_are_invalid_params(stack, method):
    """-32602 whatever is wrong with query or cursor."""
    for params in BAD_PARAMETERS:
        answer = await raw(f"{stack.url}/mcp", method, params)
        assert answer["error"]["code"] == -32602, (params, answer)


@pytest.mark.parametrize("stack", [{"search": False}], indirect=True)
async def test_feature_off_is_method_not_found(stack):
    """-32601, nothing declared, and no lazy endpoint."""
    for method in ("tools/search", "prompts/search", "resources/search"):
        answer = await raw(f"{stack.url}/mcp", method, {"query": "mail"})
        assert answer["error"]["code"] == -32601
    params = {
        "protocolVersion": "2025-06-18", "capabilities": {},
        "clientInfo": {"name": "t", "version": "1"},
    }  # fmt: skip
    capabilities = (await raw(f"{stack.url}/mcp", "initialize", params))["result"]["capabilities"]
    assert "search" not in capabilities["tools"]
    async with httpx.AsyncClient() as http:
        assert (
            await http.post(f"{stack.url}/mcp/lazy", json={}, headers=HEADERS)
        ).status_code == 404


@pytest.mark.parametrize("mode", MODES)
async def test_pages_hold_ten_and_each_match_once(stack, mode):
    """Walking the cursors; a cursor serves its own query, endpoint and place only."""
    await stack.serve(
        office({f"mail_{i}": f"Send mail number {i}." for i in range(35)}, name="post")
    )
    await indexed(stack, "mail_34")
    async with Client(f"{stack.url}/mcp", mode=mode) as client:
        names, cursor = [], None
        while True:
            page = await ask(client, ToolsSearch, "send mail", cursor)
            assert len(page.tools) <= 10
            names += [tool.name for tool in page.tools]
            if page.next_cursor is None:
                break
            cursor = page.next_cursor
        assert len(names) == len(set(names)) >= 35
        for query, wrong in (
            ("send post", cursor),
            ("send mail", cursor[:-3] + ("AAA" if not cursor.endswith("AAA") else "BBB")),
            ("send mail", cursor + "A"),
            ("send mail", cursor[1:]),
        ):
            with pytest.raises(MCPError) as caught:
                await ask(client, ToolsSearch, query, wrong)
            assert caught.value.error.code == -32602
        with pytest.raises(MCPError):
            await ask(client, PromptsSearch, "send mail", cursor)
    async with Client(f"{stack.url}/mcp/post", mode=mode) as client:
        with pytest.raises(MCPError):
            await ask(client, ToolsSearch, "send mail", cursor)


async def indexed(stack, name: str, *, there: bool = True) -> None:
    """Wait until tools/search finds (or no longer finds) a tool by its name."""

    async def found() -> bool:
        answer = await raw(f"{stack.url}/mcp", "tools/search", {"query": name})
        names = [tool["name"] for tool in answer["result"]["tools"]]
        return (name in names[:1]) == there

    await until(found)


async def test_worker_that_comes_is_found_and_one_that_goes_is_forgotten(stack):
    """Found soon after its announcement, gone after the grace period, others untouched."""
    serving = await stack.serve(office({"measure_tide": "Height of the tide."}, name="sea"))
    await indexed(stack, "measure_tide")
    await serving.drain()
    await indexed(stack, "measure_tide", there=False)
    answer = await raw(f"{stack.url}/mcp", "tools/search", {"query": "weather"})
    assert answer["result"]["tools"][0]["name"] == "get_forecast"


async def test_nothing_that_fits_is_an_empty_page(stack):
    """Empty results, not an error."""
    answer = await raw(f"{stack.url}/mcp", "tools/search", {"query": "breed ferrets in captivity"})
    assert answer["result"]["tools"] == []
    assert "nextCursor" not in answer["result"]


SECRETS = ["zebra", "get_secret_forecast", "secret weather forecast", "zebras", "vault"]


async def test_hidden_tools_appear_nowhere(stack):
    """Not in a list, a search, a call, a prompt, the lazy tools or an error."""
    for query in SECRETS:
        await assert_hidden_everywhere(stack, query)


async def assert_hidden_everywhere(stack, query: str) -> None:
    url = f"{stack.url}/mcp"
    seen = [
        await raw(url, "tools/search", {"query": query}),
        await raw(url, "prompts/search", {"query": query}),
        await raw(url, "resources/search", {"query": query}),
        await raw(url, "tools/list", {"query": query}),
        await raw(url, "tools/list", {}),
        await raw(url, "prompts/list", {}),
        await raw(f"{url}/vault", "tools/search", {"query": query}),
        await raw(f"{url}/lazy", "tools/call",
                  {"name": "find_tools", "arguments": {"query": query, "detail": "full"}}),
    ]  # fmt: skip
    for answer in seen:
        assert "result" in answer, answer
        text = json.dumps(answer).lower()
        assert "zebra" not in text
        assert "secret" not in text
    unknown, hidden = [
        await raw(url, "tools/call", {"name": name, "arguments": {}}) for name in ("nope", "zebra")
    ]
    assert json.dumps(unknown).replace("nope", "zebra") == json.dumps(hidden)
    unknown, hidden = [
        await raw(f"{url}/lazy", "tools/call",
                  {"name": "call_tool", "arguments": {"name": name}})
        for name in ("nope", "zebra")
    ]  # fmt: skip
    assert json.dumps(unknown).replace("nope", "zebra") == json.dumps(hidden)


@pytest.mark.parametrize("stack", [{"search_rate_per_s": 0.01, "search_burst": 3}], indirect=True)
async def test_searches_of_a_caller_are_limited(stack):
    """All search methods share one limit; the error has the time to wait."""
    url = f"{stack.url}/mcp"
    await raw(url, "tools/search", {"query": "mail"})
    await raw(url, "tools/list", {"query": "mail"})
    await raw(url, "prompts/search", {"query": "mail"})
    refused = await raw(url, "resources/search", {"query": "mail"})
    assert refused["error"]["code"] == -31429
    assert refused["error"]["message"].startswith("rate_limited: ")
    assert 0 < refused["error"]["data"]["retry_after_ms"] <= 100_000
    found = await raw(
        f"{url}/lazy", "tools/call", {"name": "find_tools", "arguments": {"query": "x"}}
    )
    assert found["result"]["isError"] is True
    assert found["result"]["structuredContent"]["error"]["code"] == "rate_limited"
    assert "result" in await raw(url, "tools/list", {})


async def test_index_that_is_away_is_a_typed_error(stack):
    """Searches fail immediately with `unavailable`; lists still work."""
    await stack.servings["toolindex"].drain(1.0)
    answer = await raw(f"{stack.url}/mcp", "tools/search", {"query": "mail"})
    assert answer["error"]["code"] == -31503
    assert "result" in await raw(f"{stack.url}/mcp", "tools/list", {})


@pytest.mark.parametrize("revision", ["2025-03-26", "2025-06-18", "2025-11-25"])
@pytest.mark.parametrize("method", ["tools/search", "prompts/search", "resources/search"])
async def test_older_revisions_get_no_fields_of_later_ones(stack, method, revision):
    """Strict clients refuse what their revision does not know."""
    headers = {"MCP-Protocol-Version": revision}
    answer = await raw(f"{stack.url}/mcp", method, {"query": "the Fed"}, **headers)
    assert not {"ttlMs", "cacheScope", "resultType"} & answer["result"].keys()


@pytest.mark.parametrize("method", ["tools/search", "prompts/search", "resources/search"])
@pytest.mark.parametrize("params", [None, {}, {"query": 5}])
async def test_missing_query_is_named(stack, method, params):
    """With what is wrong, not a library's report."""
    error = (await raw(f"{stack.url}/mcp", method, params))["error"]
    assert error["code"] == -32602
    assert "query" in error["message"]
    assert "pydantic" not in json.dumps(error)
