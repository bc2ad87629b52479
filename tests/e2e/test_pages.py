"""Parts and data of pages in a whole stack, by the SDK's client."""

from __future__ import annotations

import jsonschema
import pytest
from mcp import Client

PAGE = "http://a.example.org/article"
PRODUCT = {
    "type": "object", "required": ["name", "price"],
    "properties": {"name": {"type": "string"}, "price": {"type": "number"}},
}  # fmt: skip


@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_parts_and_data_of_pages(stack, mode):
    """Highlights with links, a section, data with its sources; typed as listed."""
    async with Client(stack.url + "/mcp/pages", mode=mode) as client:
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        assert tools.keys() == {"read_page", "page_data"}
        asked = {"urls": [PAGE], "query": "how far do the notes travel"}
        found = await client.call_tool("read_page", asked)
        assert not found.is_error, found.content[0].text
        jsonschema.validate(found.structured_content, tools["read_page"].output_schema)
        (item,) = found.structured_content["items"]
        assert item["highlights"][0]["url"].startswith(f"{PAGE}#:~:text=")
        found = await client.call_tool("read_page", {"urls": [PAGE], "section": "Sizes"})
        assert "first item" in found.structured_content["items"][0]["content"]
        found = await client.call_tool(
            "page_data", {"url": "http://a.example.org/product", "schema": PRODUCT}
        )
        assert not found.is_error, found.content[0].text
        jsonschema.validate(found.structured_content, tools["page_data"].output_schema)
        assert found.structured_content["data"] == {"name": "Okapi toy", "price": 19.9}
        assert found.structured_content["valid"]
        for name, arguments in [
            ("read_page", {"urls": ["http://169.254.169.254/latest"]}),
            ("page_data", {"url": "http://10.0.0.1/", "schema": PRODUCT}),
        ]:
            found = (await client.call_tool(name, arguments)).structured_content
            item = found["items"][0] if name == "read_page" else found
            assert item["status"] == "blocked_by_policy"


async def test_wrong_arguments_name_the_field(stack):
    """As errors of the tool."""
    async with Client(stack.url + "/mcp/pages") as client:
        for name, arguments, field in [
            ("read_page", {"urls": [PAGE], "paragraphs": "last"}, "paragraphs"),
            ("read_page", {"urls": [PAGE], "maxAgeS": -1}, "maxAgeS"),
            ("page_data", {"url": PAGE, "schema": {"$ref": "http://evil.example/x"}}, "schema"),
            ("page_data", {"url": PAGE, "schema": "x"}, "schema"),
        ]:
            answer = await client.call_tool(name, arguments)
            assert answer.is_error
            assert field in answer.content[0].text
