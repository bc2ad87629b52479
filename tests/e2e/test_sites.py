"""Maps and crawls of sites in a whole stack, by the SDK's client."""

from __future__ import annotations

import jsonschema
import pytest
from mcp import Client

SITE = "http://crawled.example.org/"


@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_map_and_crawl(stack, mode):
    """Typed as listed; what was crawled is found by search, and a second crawl changes nothing."""
    collection = f"crawled-{mode}"
    async with Client(stack.url + "/mcp/sites", mode=mode) as client:
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        assert tools.keys() == {"map_site", "crawl"}
        assert tools["map_site"].annotations.read_only_hint
        assert not tools["crawl"].annotations.read_only_hint
        found = await client.call_tool("map_site", {"url": SITE})
        assert not found.is_error, found.content[0].text
        jsonschema.validate(found.structured_content, tools["map_site"].output_schema)
        assert {a["url"] for a in found.structured_content["addresses"]} == {SITE, SITE + "shop"}
        given = {"url": SITE, "collection": collection, "exclude": ["/shop"]}
        steps = []

        async def on_progress(progress, total, message) -> None:
            steps.append(message)

        found = await client.call_tool("crawl", given, progress_callback=on_progress)
        assert not found.is_error, found.content[0].text
        jsonschema.validate(found.structured_content, tools["crawl"].output_schema)
        assert found.structured_content["stored"] == 1
        assert steps == [f"stored: {SITE}"]
        again = (await client.call_tool("crawl", given)).structured_content
        assert (again.get("stored", 0), again["unchanged"]) == (0, 1)
    async with Client(stack.url + "/mcp", mode=mode) as client:
        asked = {"query": "how far do the songs of the blue whale travel"}
        found = await client.call_tool("search", asked)
        assert "crawled.example.org" in found.content[0].text


async def test_wrong_arguments_and_private_addresses_name_the_field(stack):
    """As errors of the tool."""
    async with Client(stack.url + "/mcp/sites") as client:
        for name, arguments, field in [
            ("map_site", {"url": "http://169.254.169.254/"}, "url"),
            ("map_site", {"url": SITE, "include": ["/" + "a*" * 100_000]}, "include"),
            ("crawl", {"url": "http://10.0.0.1/", "collection": "x"}, "url"),
            ("crawl", {"url": SITE, "collection": "searchbus_memory"}, "collection"),
            ("crawl", {"url": SITE, "collection": "a/b"}, "collection"),
        ]:
            answer = await client.call_tool(name, arguments)
            assert answer.is_error
            assert field in answer.content[0].text
