"""Web search and extraction in a whole stack, with no key and the internet played on loopback."""

from __future__ import annotations

import json

import jsonschema
import pytest
from mcp import Client

from searchbus_bus import declared_tools
from searchbus_web.tools import WebTools

DECLARED = declared_tools(WebTools)
SEARCHES = ("web_search", "web_search_advanced", "web_search_news")
SEARCHED = {
    "type": "object", "required": ["query", "results"],
    "properties": {"results": {"type": "array", "items": {
        "type": "object", "required": ["title", "url", "snippet"],
        "properties": {name: {"type": "string"} for name in
                       ("title", "url", "snippet", "publishedAt", "source")},
    }}},
}  # fmt: skip
EXTRACTED = {
    "type": "object", "required": ["items"],
    "properties": {"items": {"type": "array", "items": {
        "type": "object", "required": ["url", "content", "status"],
        "properties": {name: {"type": "string"} for name in ("url", "content", "status", "message")},
    }}},
}  # fmt: skip


@pytest.mark.parametrize("path", ["/mcp/web", "/mcp"])
@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_tools_answer_without_a_key(stack, path, mode):
    """Text and structure are one object; on /mcp the plain name is the web toolset's."""
    async with Client(stack.url + path, mode=mode) as client:
        tools = {tool.name for tool in (await client.list_tools()).tools}
        declared = {tool.name for tool in DECLARED}
        assert tools >= declared
        assert (path == "/mcp/web") == (tools == declared)
        assert path == "/mcp/web" or {"ddg_web_search", "instant_answer"} <= tools
        for name in SEARCHES:
            found = await client.call_tool(name, {"query": "whales", "maxResults": 4})
            assert not found.is_error, found.content[0].text
            jsonschema.validate(found.structured_content, SEARCHED)
            assert len(found.structured_content["results"]) == 4
            assert json.loads(found.content[0].text) == found.structured_content
        urls = ["http://a.example.org/article", "http://a.example.org/missing", "http://10.0.0.1/"]
        read = await client.call_tool("web_extract_content", {"urls": urls})
        jsonschema.validate(read.structured_content, EXTRACTED)
        assert [i["status"] for i in read.structured_content["items"]] == [
            "ok", "http_404", "blocked_by_policy"
        ]  # fmt: skip
        quoted = await client.call_tool("web_extract_content", {"urls": json.dumps(urls[:1])})
        assert quoted.structured_content["items"][0]["status"] == "ok"
        results = (await client.call_tool("web_search", {"query": "whales"})).structured_content
        read = await client.call_tool(
            "web_extract_content", {"urls": [r["url"] for r in results["results"][:2]]}
        )
        assert [i["status"] for i in read.structured_content["items"]] == ["ok", "ok"]


@pytest.mark.parametrize(
    ("prompt", "argument"),
    [("research_question", "question"), ("verify_claim", "claim"), ("daily_news_brief", "topics")],
)
async def test_prompts_name_the_web_search_tools(stack, prompt, argument):
    """Under the names that the endpoint lists."""
    async with Client(stack.url + "/mcp") as client:
        filled = await client.get_prompt(prompt, {argument: "whales"})
    text = filled.messages[-1].content.text
    named = text.rpartition("Tools that you may call for this: ")[2].rstrip(".").split(", ")
    assert set(named) == {tool.name for tool in DECLARED if tool.in_prompts}


@pytest.mark.parametrize("word", ["day", "d", ""])
async def test_time_range_may_be_a_letter_or_a_word(stack, word):
    """Through the edge, which checks the schema; empty is as omitted; another one names the field."""
    async with Client(stack.url + "/mcp/web") as client:
        found = await client.call_tool("web_search_news", {"query": "whales", "timeRange": word})
        assert not found.is_error, found.content[0].text
        wrong = await client.call_tool("web_search_news", {"query": "x", "timeRange": "decade"})
        assert wrong.is_error
        assert "timeRange" in wrong.content[0].text
