"""/mcp/lazy: find_tools, call_tool and the pinned tools."""

from __future__ import annotations

import json

import pytest
from mcp import Client

from .test_search_methods import MODES


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
        assert nothing.structured_content == {"results": []}
        assert not nothing.is_error


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
