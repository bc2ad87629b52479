"""Text of others is marked on every way out of a whole stack."""

from __future__ import annotations

import json

import pytest
from mcp import Client

from searchbus_contracts.tools import UNTRUSTED

PAGE = "http://a.example.org/article"


@pytest.fixture(scope="module")
def documents(stack, tmp_path_factory):
    """A document of somebody else in a collection."""
    folder = tmp_path_factory.mktemp("notes")
    text = "Whales are the largest animals. They breathe air and sing under water for hours. " * 4
    (folder / "whales.md").write_text(f"# Whales\n\n{text}\n")
    done = stack.command("ingest", folder, "--collection", "marked")
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("web_search", {"query": "whales"}), ("web_search_advanced", {"query": "whales"}),
        ("web_search_news", {"query": "whales"}), ("web_extract_content", {"urls": [PAGE]}),
        ("ddg_web_search", {"query": "whales"}), ("instant_answer", {"query": "whales"}),
        ("search", {"query": "whales"}), ("research_brief", {"question": "How do whales sing?"}),
    ],
)  # fmt: skip
async def test_results_of_tools_say_so(stack, documents, name, arguments):
    """In _meta, in each revision."""
    for mode in ("legacy", "auto"):
        async with Client(stack.url + "/mcp", mode=mode) as client:
            found = await client.call_tool(name, arguments)
            assert not found.is_error, found.content[0].text
            assert found.meta[UNTRUSTED] is True


async def test_texts_that_a_model_reads_say_so_too(stack, documents):
    """Where the contract of a tool allows it: a field, or marks around the text."""
    async with Client(stack.url + "/mcp") as client:

        async def call(name, **arguments):
            found = await client.call_tool(name, arguments)
            return json.loads(found.content[0].text)

        results = (await call("search", query="whales"))["results"]
        assert {row["source"].partition("/")[0] for row in results} == {"documents", "web"}
        assert all(row["untrusted"] is True for row in results)
        for row in results[:4]:
            assert (await call("fetch", id=row["id"]))["metadata"]["untrusted"] == "true"
        brief = await call("research_brief", question="How do whales sing?")
        assert brief["untrusted"] is True
        (item,) = (await call("web_extract_content", urls=[PAGE]))["items"]
        assert item["content"].startswith("<untrusted_text_")


async def test_documents_say_so_as_resources(stack, documents):
    """Listed, found and read."""
    async with Client(stack.url + "/mcp") as client:
        listed, cursor = [], None
        while True:
            page = await client.list_resources(cursor=cursor)
            listed += page.resources
            cursor = page.next_cursor
            if cursor is None:
                break
        own = [found for found in listed if str(found.uri).startswith("searchbus://marked/")]
        assert own
        for found in own:
            assert found.meta[UNTRUSTED] is True
            (content,) = (await client.read_resource(found.uri)).contents
            assert content.meta[UNTRUSTED] is True
