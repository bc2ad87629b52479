"""Web search with chosen engines in a whole stack, by the SDK's client and the fake engines."""

from __future__ import annotations

import json

import jsonschema
import pytest
from mcp import Client


@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_pages_of_several_engines(stack, mode):
    """Results of every engine; the cursor gives others; the endpoints of specifications stay."""
    async with Client(stack.url + "/mcp/engines", mode=mode) as client:
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        assert tools.keys() == {"web_find", "engines"}
        arguments = {"query": "okapi", "region": "ch", "language": "fr", "maxResults": 25}
        first = (await client.call_tool("web_find", arguments)).structured_content
        jsonschema.validate(first, tools["web_find"].output_schema)
        asked = {"ddg", "wikipedia", "marginalia", "mojeek", "brave_page"}
        assert {part["source"] for part in first["coverage"]} == asked
        assert {name for result in first["results"] for name in result["engines"]} == asked
        more = await client.call_tool("web_find", {**arguments, "cursor": first["cursor"]})
        assert not more.is_error, more.content[0].text
        urls = [r["url"] for r in first["results"] + more.structured_content["results"]]
        assert len(urls) == len(set(urls)) > 25
        news = await client.call_tool("web_find", {"query": "okapi", "topic": "news"})
        assert news.structured_content["results"][0]["engines"] == {"ddg_news": 1}
        listed = (await client.call_tool("engines", {})).structured_content["engines"]
        assert {e["name"] for e in listed if e["state"] in ("ready", "unused")} >= asked
    for path in ("/mcp/web", "/mcp/ddg", "/mcp/fomc", "/mcp/connector"):
        async with Client(stack.url + path, mode=mode) as client:
            names = {tool.name for tool in (await client.list_tools()).tools}
            assert not names & {"web_find", "engines"}


async def test_wrong_arguments_name_the_field(stack):
    """As errors of the tool."""
    async with Client(stack.url + "/mcp/engines") as client:
        for arguments, field in [
            ({"query": "x", "region": "germany"}, "region"),
            ({"query": "x", "safeSearch": "very"}, "safeSearch"),
            ({"query": "x", "engines": ["altavista"]}, "engines"),
            ({"query": "x", "cursor": "abc"}, "cursor"),
            ({"query": ""}, "query"),
        ]:
            answer = await client.call_tool("web_find", arguments)
            assert answer.is_error
            assert field in answer.content[0].text, json.dumps(arguments)
