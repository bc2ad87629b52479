"""Other search APIs in a whole stack: they find what the tools find."""

from __future__ import annotations

import json

import httpx
import pytest
from mcp import Client

from searchbus_testing import eventually

QUERY = {"query": "whales", "maxResults": 10}
CALLED = {"web_search_advanced", "web_extract_content"}
PAGE = "http://a.example.org/article"


async def called(stack, tool, **arguments):
    async with Client(f"{stack.url}/mcp/web") as client:
        found = await client.call_tool(tool, arguments)
        assert not found.is_error, found.content[0].text
        return found.structured_content


@pytest.fixture
async def http(stack):
    async with httpx.AsyncClient(base_url=stack.url, timeout=120, trust_env=False) as http:
        yield http


@pytest.mark.parametrize(
    ("topic", "tool"), [("general", "web_search_advanced"), ("news", "web_search_news")]
)
async def test_searches_agree_with_the_tools(stack, http, topic, tool):
    """Titles, addresses, texts and dates, in the same order."""
    rows = (await called(stack, tool, **QUERY))["results"]
    wanted = [(r["title"], r["url"], r["snippet"], r.get("publishedAt")) for r in rows]
    params = {"q": QUERY["query"], "format": "json", "categories": topic}
    searxng = (await http.get("/searxng/search", params=params)).json()
    assert wanted == [
        (r["title"], r["url"], r["content"], r["publishedDate"]) for r in searxng["results"]
    ]
    assert {name for r in searxng["results"] for name in r["engines"]} == {"duckduckgo"}
    assert searxng["unresponsive_engines"] == []
    body = {"query": QUERY["query"], "topic": topic, "max_results": 10}
    tavily = (await http.post("/tavily/search", json=body)).json()
    assert wanted == [
        (r["title"], r["url"], r["content"], r.get("published_date")) for r in tavily["results"]
    ]


async def test_pages_agree_with_the_tool(stack, http):
    """Each has random marks around the same text."""
    (item,) = (await called(stack, "web_extract_content", urls=[PAGE]))["items"]

    def text(content: str) -> str:
        opening, _, rest = content.partition("\n")
        assert opening.startswith("<untrusted_text_")
        return rest.rpartition("\n")[0]

    body = {"urls": PAGE, "timeout": 60}
    extracted = (await http.post("/tavily/extract", json=body)).json()["results"]
    read = await http.get("/read", params={"url": PAGE})
    assert text(item["content"]) == text(read.text) == text(extracted[0]["raw_content"])


def test_request_id_is_the_trace_of_all_its_calls(stack):
    """By which an operator finds them, from the request to the services."""
    body = {"query": "whales", "max_results": 1, "include_raw_content": True}
    answer = httpx.post(f"{stack.url}/tavily/search", json=body, timeout=120, trust_env=False)
    trace_id = answer.json()["request_id"].replace("-", "")

    def subjects() -> set[str]:
        done = stack.command("trace", trace_id, "--json")
        names = {span["name"] for span in json.loads(done.stdout)} if done.returncode == 0 else ()
        return {tool for tool in CALLED if any(tool in name for name in names)}

    eventually(lambda: subjects() == CALLED, timeout_s=120, message=lambda: str(subjects()))
