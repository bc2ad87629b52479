"""The tools of toolset `ddg`."""

from __future__ import annotations

import json

import msgspec
import pytest

from searchbus_bus import Worker
from searchbus_contracts.web import WebResult, WebSearchReply, WebSearchRequest
from searchbus_ddg.instant import InstantAnswer
from searchbus_ddg.tools import DdgTools, InstantQuery, WebSearch

DOG = WebResult(title="Dogs", url="https://dogs.example.org/", snippet="All about dogs.")
CAT = WebResult(title="Cats", url="https://cats.example.org/", published_at="2026-03-02")


class FakeDuckDuckGo:
    """Returns fixed results; keeps the requests."""

    def __init__(self, *, note: str | None = None, stale: bool = False) -> None:
        self.note = note
        self.stale = stale
        self.requests: list[WebSearchRequest] = []

    async def search(self, call, request: WebSearchRequest) -> WebSearchReply:
        self.requests.append(request)
        return WebSearchReply(
            results=(DOG, CAT), provider="duckduckgo", fetched_at_ms=1, note=self.note,
            stale=self.stale,
        )  # fmt: skip

    async def instant(self, call, query: str) -> tuple[InstantAnswer, str | None]:
        return InstantAnswer(answer="42"), self.note


async def test_web_search_shows_markdown_and_structure():
    """Both hold the same results."""
    fake = FakeDuckDuckGo()
    reply = await DdgTools(fake).web_search(None, WebSearch(query="pets", max_results=7))
    assert reply.content[0].text.startswith('## Web Search Results for "pets"\n\n### 1. Dogs\n')
    assert reply.structured == {
        "results": [
            {"title": "Dogs", "url": "https://dogs.example.org/", "snippet": "All about dogs."},
            {"title": "Cats", "url": "https://cats.example.org/", "snippet": "",
             "published_at": "2026-03-02"},
        ],
        "stale": False, "untrusted": True,
    }  # fmt: skip
    assert fake.requests == [WebSearchRequest(query="pets", limit=7)]


async def test_notes_are_in_both_forms():
    """A stale reply says so."""
    tools = DdgTools(FakeDuckDuckGo(note="Old.", stale=True))
    reply = await tools.web_search(None, WebSearch(query="pets"))
    assert "_Note: Old._" in reply.content[0].text
    assert (reply.structured["note"], reply.structured["stale"]) == ("Old.", True)
    assert "_Note: Old._" in await tools.instant_answer(None, InstantQuery(query="x"))


async def test_instant_answer_is_one_text():
    """The Markdown of the specification."""
    text = await DdgTools(FakeDuckDuckGo()).instant_answer(None, InstantQuery(query="life"))
    assert text.startswith('## Instant Answer for "life"\n\n### Answer\n42\n')


@pytest.mark.parametrize("arguments", [{"query": "x", "max_results": 31}, {"max_results": 3}])
def test_arguments_have_limits(arguments):
    """They are checked before the tool runs."""
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert(arguments, WebSearch)


def tools_by_name():
    worker = Worker("ddg")
    worker.add(DdgTools(FakeDuckDuckGo()))
    return {tool.name: tool for tool in worker.catalog.tools}


def test_descriptions_and_schemas_of_the_catalogue():
    """Two tools with Markdown as their reply."""
    tools = tools_by_name()
    assert set(tools) == {"web_search", "instant_answer"}
    assert tools["web_search"].description == (
        "Search the web using DuckDuckGo and return a list of results with titles, URLs, and "
        "snippets."
    )
    assert tools["instant_answer"].description == (
        "Get an instant answer from DuckDuckGo, including abstracts, definitions, and related "
        "topics."
    )
    assert tools["web_search"].input_schema == {
        "type": "object",
        "properties": {
            "query": {"type": "string", "description": "検索キーワード"},
            "max_results": {
                "type": "integer", "minimum": 1, "maximum": 30, "default": 10,
                "description": "返却する検索結果の最大数（デフォルト: 10）",
            },
        },
        "required": ["query"],
    }  # fmt: skip
    assert all(tool.output_schema is None for tool in tools.values())


def test_tools_are_listed_as_the_specification_shows(reference):
    """Names, descriptions, schemas."""
    text = (reference / "specs" / "duckduckgo_tools.ja.md").read_text()
    (block,) = (b.partition("\n")[2] for b in text.split("```")[1::2] if '"tools": [' in b)
    expected = json.loads(block)["tools"]
    tools = tools_by_name()
    assert len(tools) == len(expected)
    for shown in expected:
        tool = tools[shown["name"]]
        assert tool.description == shown["description"]
        assert tool.input_schema == shown["inputSchema"]
