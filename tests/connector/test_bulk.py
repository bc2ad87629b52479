"""run_plan and search_many by the SDK's client: what they show to whom, and what they leave alone."""

from __future__ import annotations

import pytest
from mcp import Client

PLAN = {
    "steps": [
        {"id": "found", "tool": "web_search", "arguments": {"query": "whales", "maxResults": 5}},
        {"id": "pages", "tool": "web_extract_content", "rows": "$.found.results[1:3]",
         "arguments": {"urls": [{"$path": "@.url"}]}},
    ],
    "output": {"titles": "$.found.results[*].title", "pages": "$.pages[*].result.items[*].status"},
}  # fmt: skip


@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_both_tools_by_the_sdk(stack, mode):
    """On /mcp/bulk exactly these two; a plan's progress reaches the client."""
    steps = []

    async def progress(done, total, message):
        steps.append((done, total, message))

    async with Client(f"{stack.url}/mcp/bulk", mode=mode) as client:
        tools = (await client.list_tools()).tools
        assert {tool.name for tool in tools} == {"run_plan", "search_many"}
        reply = await client.call_tool("run_plan", PLAN, progress_callback=progress)
        assert not reply.is_error, reply.content
        assert reply.structured_content["output"]["pages"] == ["ok", "ok"]
        assert len(reply.structured_content["output"]["titles"]) == 10
        assert reply.structured_content["calls"] == 3
        assert [step[2] for step in steps] == ["found", "pages"]
        many = await client.call_tool("search_many", {"queries": ["whales", "boats"]})
        results = many.structured_content["results"]
        assert len({result["url"] for result in results}) == len(results)
        assert results[0]["queries"] == [0, 1]
        assert [q["found"] for q in many.structured_content["queries"]] == [12, 12]


@pytest.mark.parametrize("stack", [{"roles": ()}], indirect=True)
async def test_caller_without_the_role_of_the_web(stack):
    """Its tools are unknown to a plan, and the web is left out of the search."""
    async with Client(f"{stack.url}/mcp", mode="legacy") as client:
        assert "web_search" not in {tool.name for tool in (await client.list_tools()).tools}
        reply = await client.call_tool("run_plan", PLAN)
        assert reply.is_error
        assert "steps.found.tool: Unknown tool: web_search." in reply.content[0].text
        many = await client.call_tool("search_many", {"queries": ["whales"]})
        found = many.structured_content
        assert {result["source"] for result in found["results"]} == {"documents/books"}
        assert found["queries"][0]["coverage"][-1]["state"] == "left_out"
        assert stack.sources.fetched == []


async def test_request_larger_than_a_plan_may_be(stack):
    """By the limit of requests, or of plans; nothing is called."""
    for size in (100_000, 1_000_000):
        steps = [{"id": "a", "tool": "search", "arguments": {"query": "x" * size}}]
        async with Client(f"{stack.url}/mcp/bulk", mode="legacy") as client:
            try:
                reply = await client.call_tool("run_plan", {"steps": steps, "output": {"a": "$.a"}})
            except Exception as error:  # HTTP 413
                assert "413" in repr(error) or "bytes" in repr(error), error
            else:
                assert "steps: have more than 65536 bytes" in reply.content[0].text
