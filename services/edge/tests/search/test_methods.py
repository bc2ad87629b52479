"""The search methods: offered and declared only while an index is on the bus."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from mcp.shared.exceptions import MCPError

from searchbus_contracts.coverage import COVERAGE, SourceCoverage
from searchbus_contracts.retrieval import EXPLANATION
from searchbus_contracts.toolindex import FindExplanation
from searchbus_edge.catalog.view import View
from searchbus_edge.search.methods import EXTENSION, SearchMethods, SearchParams

VIEW = View((0, True))
EXPLAINED = FindExplanation(texts=("q",), least_score=0.2, least_probability=0.25, considered=())


class Finder:
    """Finds one tool."""

    def __init__(self, tool, available=True):
        self.tool, self.is_offered = tool, available

    def offered(self):
        return self.is_offered

    async def tools(self, actor, view, query, cursor):
        return [self.tool], f"after {cursor}"

    async def explain_tools(self, actor, view, query):
        return EXPLAINED if query == "q" else None

    async def resources(self, actor, view, query, cursor):
        return [], None, [SourceCoverage.of_results("books", 0)]


async def declared(methods, method):
    async def answer(ctx):
        return {"capabilities": {"tools": {"listChanged": True}}, "serverInfo": {}}

    return (await methods.declare(SimpleNamespace(method=method), answer))["capabilities"]


async def test_found_tools_look_as_in_the_list(make_tool, reader):
    """With the cursor of the next page."""
    methods = SearchMethods(Finder(make_tool("say")))
    found = await methods.tools(reader, VIEW, SearchParams(query="q", cursor="c"))
    assert [tool.name for tool in found.tools] == ["say"]
    assert found.next_cursor == "after c"


async def test_explanation_stands_in_meta_where_it_is_asked_for(make_tool, reader):
    """The page itself is the same."""
    methods = SearchMethods(Finder(make_tool("say")))
    plain = await methods.tools(reader, VIEW, SearchParams(query="q"))
    explained = await methods.tools(reader, VIEW, SearchParams(query="q", explain=True))
    assert (plain.meta, plain.tools) == (None, explained.tools)
    assert explained.meta[EXPLANATION]["texts"] == ("q",)
    nothing = await methods.tools(reader, VIEW, SearchParams(query="?", explain=True))
    assert nothing.meta is None


async def test_found_resources_come_with_their_coverage(reader):
    """In `_meta`: the result has no other place for it."""
    found = await SearchMethods(Finder(None)).resources(reader, VIEW, SearchParams(query="q"))
    assert found.meta == {COVERAGE: [{"source": "books", "state": "empty"}]}


@pytest.mark.parametrize("method", ["tools", "prompts", "resources"])
async def test_methods_are_unknown_without_an_index(reader, method):
    """-32601."""
    methods = SearchMethods(Finder(None, available=False))
    with pytest.raises(MCPError) as caught:
        await getattr(methods, method)(reader, VIEW, SearchParams(query="q"))
    assert (caught.value.error.code, caught.value.error.data) == (-32601, f"{method}/search")


@pytest.mark.parametrize("method", ["initialize", "server/discover"])
async def test_capability_is_declared_in_each_area(method):
    """Beside what the SDK declares; SDK clients can read the extension."""
    capabilities = await declared(SearchMethods(Finder(None)), method)
    assert capabilities["tools"] == {"listChanged": True, "search": True}
    assert capabilities["prompts"] == capabilities["resources"] == {"search": True}
    assert capabilities["extensions"][EXTENSION]["pageSize"] == 10


async def test_other_answers_stay_as_they_are():
    """Other methods, and all of them without an index."""
    plain = {"tools": {"listChanged": True}}
    assert await declared(SearchMethods(Finder(None)), "tools/list") == plain
    assert await declared(SearchMethods(Finder(None, available=False)), "initialize") == plain
