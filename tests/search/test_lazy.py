"""/mcp/lazy: find_tools, call_tool and the pinned tools."""

from __future__ import annotations

import json

import pytest
from mcp import Client

from .test_search_methods import MODES, ToolsSearch, ask, indexed, raw


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("stack", [{"pinned_tools": ["get_document", "unknown"]}], indirect=True)
async def test_lists_only_two_and_what_is_pinned(stack, mode):
    """The list stays small, however many tools there are."""
    async with Client(f"{stack.url}/mcp/lazy", mode=mode) as client:
        tools = (await client.list_tools()).tools
        assert [tool.name for tool in tools] == ["find_tools", "call_tool", "get_document"]
        assert tools[0].annotations.read_only_hint
        with pytest.raises(Exception, match="Unknown tool"):
            await client.call_tool("get_forecast", {})


@pytest.mark.parametrize("mode", MODES)
async def test_find_then_call(stack, mode):
    """Short entries first, schemas on request, and the tool's own result through call_tool."""
    async with Client(f"{stack.url}/mcp/lazy", mode=mode) as client:
        found = await client.call_tool("find_tools", {"query": "what did the Fed say", "limit": 2})
        results = found.structured_content["results"]
        assert json.loads(found.content[0].text) == results
        assert results[0] == {
            "name": "search_fomc",
            "summary": "Search the FOMC document corpus using semantic similarity.",
            "required": ["query"],
        }
        full = await client.call_tool("find_tools", {"query": "search_fomc", "detail": "full"})
        schema = full.structured_content["results"][0]["input_schema"]
        assert schema["properties"]["top_k"]["maximum"] == 50
        called = await client.call_tool("call_tool", {"name": "get_forecast", "arguments": {}})
        assert called.content[0].text == "get_forecast was called"
        nothing = await client.call_tool("find_tools", {"query": "breed ferrets in captivity"})
        nearest = nothing.structured_content["results"]
        assert [result["confidence"] for result in nearest] == ["low", "low"]
        assert "confidence" not in results[0]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    "stack", [{"joined_endpoints": {"desk": ("office", "lazy"), "alone": ("office",)}}],
    indirect=True,
)  # fmt: skip
async def test_endpoint_that_joins_toolsets_finds_and_calls_only_theirs(stack, mode):
    """By tools/search, find_tools and call_tool; without the lazy toolset only the first is there."""
    async with Client(f"{stack.url}/mcp/desk", mode=mode) as client:
        listed = {tool.name for tool in (await client.list_tools()).tools}
        assert {"get_forecast", "find_tools", "call_tool"} < listed
        seen = await client.call_tool("find_tools", {})
        assert [t["toolset"] for t in seen.structured_content["toolsets"]] == ["office"]
        for query in ("what did the Fed say", "search_fomc", "weather forecast"):
            found = await client.call_tool("find_tools", {"query": query})
            assert {tool["name"] for tool in found.structured_content["results"]} <= listed
            page = await ask(client, ToolsSearch, query)
            assert {tool.name for tool in page.tools} <= listed
        assert "get_forecast" in str(page)
        fomc = await client.call_tool("find_tools", {"toolset": "fomc"})
        assert "there is no fomc" in fomc.content[0].text
        called = await client.call_tool("call_tool", {"name": "get_forecast", "arguments": {}})
        assert called.content[0].text == "get_forecast was called"
        for name in ("search_fomc", "none"):
            refused = await client.call_tool(
                "call_tool", {"name": name, "arguments": {"query": "x"}}
            )
            assert refused.is_error
            assert f"Unknown tool: {name}" in refused.content[0].text
    async with Client(f"{stack.url}/mcp/alone", mode=mode) as client:
        assert "find_tools" not in {tool.name for tool in (await client.list_tools()).tools}


@pytest.mark.parametrize("path", ["/mcp", "/mcp/lazy"])
@pytest.mark.parametrize("mode", MODES)
async def test_client_that_asks_gets_references_to_what_was_found(stack, mode, path):
    """Beside the content, in `_meta`; all others get what they got."""
    key = "dev.searchbus/tool_references"
    arguments = {"query": "what did the Fed say", "limit": 2}
    async with Client(f"{stack.url}{path}", mode=mode) as client:
        plain = await client.call_tool("find_tools", arguments)
        assert key not in (plain.meta or {})
        asked = await client.call_tool("find_tools", arguments, meta={key: True})
        assert (asked.content, asked.structured_content) == (
            plain.content,
            plain.structured_content,
        )
        assert asked.meta[key][0] == {"type": "tool_reference", "tool_name": "search_fomc"}
        for not_asked in (False, "true", 1, {}):
            found = await client.call_tool("find_tools", arguments, meta={key: not_asked})
            assert key not in (found.meta or {})


@pytest.mark.parametrize("mode", MODES)
async def test_without_a_query_an_agent_sees_where_to_start(stack, mode):
    """The toolsets, then the tools of one; what the caller may not use is in neither."""
    async with Client(f"{stack.url}/mcp/lazy", mode=mode) as client:
        seen = await client.call_tool("find_tools", {})
        numbers = {t["toolset"]: t["tools"] for t in seen.structured_content["toolsets"]}
        assert numbers["office"] == 4
        assert not {"vault", "lazy"} & numbers.keys()
        assert json.loads(seen.content[0].text) == seen.structured_content
        tools = await client.call_tool("find_tools", {"toolset": "office"})
        names = [result["name"] for result in tools.structured_content["results"]]
        assert "get_forecast" in names
        hidden = await client.call_tool("find_tools", {"toolset": "vault"})
        assert hidden.is_error


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("stack", [{"call_tool_name": "run_tool"}], indirect=True)
async def test_call_tool_under_another_name(stack, mode):
    """For hosts that reserve the name, on both endpoints."""
    async with Client(f"{stack.url}/mcp/lazy", mode=mode) as client:
        assert [t.name for t in (await client.list_tools()).tools] == ["find_tools", "run_tool"]
        called = await client.call_tool("run_tool", {"name": "get_forecast"})
        assert called.content[0].text == "get_forecast was called"
        itself = await client.call_tool("run_tool", {"name": "run_tool"})
        assert "cannot be called through itself" in itself.content[0].text
        with pytest.raises(Exception, match="Unknown tool"):
            await client.call_tool("call_tool", {"name": "get_forecast"})
    async with Client(f"{stack.url}/mcp") as client:
        called = await client.call_tool("run_tool", {"name": "get_forecast"})
        assert called.content[0].text == "get_forecast was called"


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({"name": "nope"}, "invalid_argument: Unknown tool: nope. find_tools finds"),
        ({"name": "search_fomc", "arguments": {"top_k": 3}}, "query: is required"),
        ({"name": "call_tool", "arguments": {"name": "call_tool"}}, "cannot be called through"),
        ({"name": "find_tools", "arguments": {"query": "x"}}, "cannot be called through"),
    ],
)
async def test_wrong_call_is_reported_to_the_model(stack, arguments, expected):
    """As a result that it reads, not as a protocol error."""
    async with Client(f"{stack.url}/mcp/lazy") as client:
        result = await client.call_tool("call_tool", arguments)
        assert result.is_error
        assert expected in result.content[0].text


async def test_arguments_in_the_forms_of_models_are_understood(stack):
    """A whole number with a fraction of zero, JSON in a string, null for what is optional."""
    async with Client(f"{stack.url}/mcp/lazy") as client:
        asked = {"query": "what did the Fed say", "limit": 1.0, "detail": None}
        found = await client.call_tool("find_tools", asked)
        assert len(found.structured_content["results"]) == 1
        wanted = '{"query": "rates", "top_k": 5.0}'
        called = await client.call_tool("call_tool", {"name": "search_fomc", "arguments": wanted})
        assert called.content[0].text.startswith("empty_corpus")  # there are no documents
    async with Client(f"{stack.url}/mcp") as client:
        for top_k in (5.0, "5", None):
            called = await client.call_tool("search_fomc", {"query": "rates", "top_k": top_k})
            assert called.content[0].text.startswith("empty_corpus")


async def test_both_are_on_the_endpoint_of_everything_last(stack):
    """After every other tool."""
    async with Client(f"{stack.url}/mcp") as client:
        names = [tool.name for tool in (await client.list_tools()).tools]
        assert names[-2:] == ["find_tools", "call_tool"]
        assert "get_forecast" in names


async def tools_of(url: str, query: str) -> list[str]:
    answer = await raw(url, "tools/search", {"query": query})
    return [tool["name"] for tool in answer["result"]["tools"]]


@pytest.mark.parametrize("mode", MODES)
async def test_search_finds_what_call_tool_can_call(stack, mode):
    """Not only the two that are listed; hidden tools stay hidden."""
    async with Client(f"{stack.url}/mcp/lazy", mode=mode) as client:
        found = await ask(client, ToolsSearch, "will it rain tomorrow")
        name = found.tools[0].name
        assert name == "get_forecast"
        called = await client.call_tool("call_tool", {"name": name, "arguments": {}})
        assert called.content[0].text == "get_forecast was called"
    assert "get_secret_forecast" not in await tools_of(f"{stack.url}/mcp/lazy", "forecast")


async def test_both_are_found_by_what_they_do(stack):
    """By tools/search; find_tools leaves them out, since call_tool cannot call them."""
    await stack.serve(stack.edge.connector)
    await indexed(stack, "find_tools")
    for endpoint in ("/mcp", "/mcp/lazy"):
        url = stack.url + endpoint
        assert (await tools_of(url, "which tools are there for my task"))[0] == "find_tools"
        assert (await tools_of(url, "run a tool that was found"))[0] == "call_tool"
    async with Client(f"{stack.url}/mcp/lazy") as client:
        found = await client.call_tool("find_tools", {"query": "find_tools"})
        names = [result["name"] for result in found.structured_content["results"]]
        assert not {"find_tools", "call_tool"} & set(names)
