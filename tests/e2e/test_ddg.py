"""DuckDuckGo in a whole stack that plays the internet on loopback."""

from __future__ import annotations

import asyncio
import json

import httpx
import pytest
from mcp import Client


async def test_tools_are_listed_as_the_specification_shows(stack, reference):
    """Title and annotations aside."""
    text = (reference / "specs" / "duckduckgo_tools.ja.md").read_text()
    block = next(b for b in text.split("```") if '"tools": [' in b)
    expected = json.loads(block.removeprefix("json"))["tools"]
    async with Client(stack.url + "/mcp/ddg") as client:
        tools = (await client.list_tools()).tools
    shown = [
        {"name": t.name, "description": t.description, "inputSchema": t.input_schema}
        for t in sorted(tools, key=lambda t: t.name != "web_search")
    ]
    assert shown == expected


@pytest.mark.parametrize("mode", [pytest.param("legacy", marks=pytest.mark.slow), "auto"])
async def test_both_tools_answer_at_their_endpoint(stack, mode):
    """Markdown for results, answers and empty results; a typed error for a failed search."""
    async with Client(stack.url + "/mcp/ddg", mode=mode) as client:
        tools = (await client.list_tools()).tools
        assert {tool.name for tool in tools} == {"web_search", "instant_answer"}
        assert all(tool.output_schema is None for tool in tools)
        found = await client.call_tool("web_search", {"query": f"cats {mode}", "max_results": 12})
        assert found.content[0].text.endswith("_Source: DuckDuckGo (12 results)_")
        answer = await client.call_tool("instant_answer", {"query": "rust"})
        assert "### Abstract" in answer.content[0].text
        nothing = await client.call_tool("web_search", {"query": "noresult"})
        assert "No results found." in nothing.content[0].text
        failed = await client.call_tool("web_search", {"query": "http500"})
        assert failed.is_error
        assert failed.content[0].text.startswith("upstream_failed: ")


@pytest.mark.slow
async def test_three_workers_share_the_load_by_address(stack):
    """No address is asked more often than the fake allows."""
    async with Client(stack.url + "/mcp/ddg") as client:
        calls = [client.call_tool("web_search", {"query": f"dogs {n}"}) for n in range(9)]
        results = await asyncio.gather(*calls)
    assert not any(result.is_error for result in results)
    fake = json.loads((stack.data / "fakes.json").read_text())["ddg"]
    counts = httpx.get(f"{fake}/_fake").json()
    assert (
        len([a for a in counts["addresses"] if a.startswith("127.0.0.1") and a != "127.0.0.1"]) == 3
    )
    assert counts["challenges"] == 0


def test_one_trace_from_the_client_to_the_upstream(stack):
    """The last span is the request to the search engine."""
    called = stack.command("tools", "call", "web_search", "query=traces", "--toolset", "ddg")
    assert called.returncode == 0, called.stderr
    shown = stack.command("trace", "--last").stdout
    for span in ("tools/call web_search", "tool.ddg.web_search", "POST duckduckgo"):
        assert span in shown, shown
