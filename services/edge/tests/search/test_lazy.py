"""find_tools and call_tool."""

from __future__ import annotations

import json

import pytest

from searchbus_contracts import ErrorCode, Fault
from searchbus_edge.catalog.view import View
from searchbus_edge.search.lazy import LAZY, LAZY_TOOLS, LazyTools, lazy_tools


class Finder:
    """Finds what the test says."""

    def __init__(self):
        self.found, self.limit, self.certain, self.admitted = [], 0, True, []

    async def admit(self, actor):
        self.admitted.append(actor.subject)

    async def best_tools(self, actor, view, query, limit, *, toolset, nearest):
        self.limit, self.toolset, self.nearest = limit, toolset, nearest
        if query == "fail":
            raise Fault(ErrorCode.UNAVAILABLE, "Gone.")
        return self.found, self.certain


@pytest.fixture
def finder():
    return Finder()


@pytest.fixture
def find(finder, reader):
    """Calls find_tools."""

    async def run(**arguments):
        return await LazyTools(finder).find(View((0, True)), reader, arguments)

    return run


def test_both_tools_are_described():
    """Arguments with descriptions, results as a list."""
    find, call = LAZY_TOOLS
    assert (find.name, call.name, find.toolset) == ("find_tools", "call_tool", "lazy")
    assert find.input_schema["properties"]["limit"]["maximum"] == 10
    assert find.output_schema["properties"]["results"]["type"] == "array"
    assert find.annotations.read_only_hint


async def test_found_tools_are_brief_unless_asked(find, finder, make_tool):
    """One line each and the required arguments; full adds description and schema."""
    schema = {"type": "object", "properties": {"a": {"type": "null"}}, "required": ["a"]}
    text = "First sentence. Second one."
    finder.found = [make_tool("x", listed_as="t_x", description=text, input_schema=schema)]
    (brief,) = (await find(query="q")).structured["results"]
    assert brief == {"name": "t_x", "summary": "First sentence.", "required": ["a"]}
    assert finder.limit == 5 + len(LAZY_TOOLS)
    (full,) = (await find(query="q", detail="full")).structured["results"]
    assert (full["description"], full["input_schema"]) == (text, schema)


async def test_tools_that_call_tool_cannot_call_are_left_out(find, finder, make_tool):
    """find_tools and call_tool; the limit is filled with others."""
    finder.found = [make_tool("call_tool", toolset=LAZY), make_tool("x"), make_tool("y")]
    found = (await find(query="q", limit=1)).structured["results"]
    assert [result["name"] for result in found] == ["x"]


async def test_long_sentences_are_cut(find, finder, make_tool):
    """At a word."""
    finder.found = [make_tool("x", description="word " * 100)]
    (brief,) = (await find(query="q")).structured["results"]
    assert len(brief["summary"]) <= 200
    assert brief["summary"].endswith("word…")


async def test_failed_search_is_an_error_result(find):
    """The model reads it."""
    assert (await find(query="fail")).content[0].text == "unavailable: Gone."


async def test_where_nothing_fits_the_nearest_two_are_marked(find, finder, make_tool):
    """In place of nothing; find_tools and call_tool are not counted."""
    finder.found = [make_tool("call_tool", toolset=LAZY), *map(make_tool, "xyz")]
    finder.certain = False
    found = (await find(query="q")).structured["results"]
    assert [(result["name"], result["confidence"]) for result in found] == [
        ("x", "low"),
        ("y", "low"),
    ]
    assert finder.nearest == 2 + len(LAZY_TOOLS)
    assert len((await find(query="q", limit=1)).structured["results"]) == 1


@pytest.fixture
def look(finder, reader, make_tool):
    """Calls find_tools over many toolsets, without a query; one toolset and one tool are hidden."""
    hidden = {"required_roles": ("SPY",)}
    tools = [make_tool(f"t{n}_a", toolset=f"t{n}", description="First. More.") for n in range(120)]
    tools += [make_tool(f"t0_b{n}", toolset="t0") for n in range(70)]
    tools += [
        make_tool("t0_secret", toolset="t0", **hidden),
        make_tool("v", toolset="vault", **hidden),
    ]
    tools += [make_tool("find_tools", toolset=LAZY)]
    view = View((0, True, 0), tools={tool.name: tool for tool in tools})

    async def run(**arguments):
        return await LazyTools(finder).find(view, reader, arguments)

    return run


async def test_overview_has_every_toolset_that_the_caller_may_use(look, finder, reader):
    """50 a page, with the number of tools and their names; hidden ones are nowhere."""
    reply = await look()
    page = reply.structured
    assert (page["total"], page["next_offset"], page["results"]) == (120, 50, [])
    assert page["toolsets"][0]["tools"] == 71
    assert page["toolsets"][0]["summary"].startswith("t0_a, t0_b0, ")
    assert page["toolsets"][1] == {"toolset": "t1", "tools": 1, "summary": "t1_a"}
    assert json.loads(reply.content[0].text) == page
    last = (await look(offset=100)).structured
    assert len(last["toolsets"]) == 20
    assert "next_offset" not in last
    everything = str([await look(offset=offset) for offset in (0, 50, 100)])
    assert not {"secret", "vault", LAZY} & set(everything.replace("'", " ").split())
    assert "secret" not in everything
    assert finder.admitted == [reader.subject] * 5


async def test_overview_of_thousands_of_toolsets_stays_small(finder, reader, make_tool):
    """Whatever their names are like."""
    tools = [make_tool(f"{'x' * 50}{n}", toolset=f"s{n % 3000}") for n in range(9000)]
    view = View((0, True, 0), tools={tool.name: tool for tool in tools})
    reply = await LazyTools(finder).find(view, reader, {})
    assert reply.structured["total"] == 3000
    assert len(reply.content[0].text) < 20_000


async def test_tools_of_a_toolset_are_listed_page_by_page(look):
    """In their order; schemas on request, ten a page."""
    first = (await look(toolset="t0")).structured
    assert (len(first["results"]), first["total"], first["next_offset"]) == (50, 71, 50)
    assert first["results"][0] == {"name": "t0_a", "summary": "First.", "required": []}
    rest = (await look(toolset="t0", offset=50)).structured
    assert len(rest["results"]) == 21
    assert "t0_secret" not in str((first, rest))
    full = (await look(toolset="t0", detail="full")).structured
    assert (len(full["results"]), full["next_offset"]) == (10, 10)
    assert full["results"][0]["input_schema"]


@pytest.mark.parametrize("arguments", [{}, {"query": "q"}])
@pytest.mark.parametrize("name", ["vault", "nothing", LAZY])
async def test_hidden_toolset_is_unknown(look, name, arguments):
    """With the words for one that does not exist."""
    reply = await look(toolset=name, **arguments)
    assert reply.is_error
    assert reply.content[0].text == (
        f"invalid_argument: toolset: there is no {name}. Omit it to list the toolsets."
    )


async def test_search_in_a_toolset_asks_for_it_only(look, finder):
    """Of the index."""
    await look(query="q", toolset="t1")
    assert finder.toolset == "t1"


def test_call_tool_has_another_name_where_a_host_reserves_it():
    """Its own name stays what the edge knows it by."""
    assert lazy_tools("call_tool") == LAZY_TOOLS
    _, call = lazy_tools("run_tool")
    assert (call.name, call.qualified_name) == ("call_tool", "run_tool")


def test_call_tool_names_the_tool_and_its_arguments(finder, make_tool):
    """requests.tool_calls follows it; find_tools names none."""
    lazy = LazyTools(finder)
    listed = make_tool("call_tool", toolset=LAZY)
    called = lazy.called(listed, {"name": "say", "arguments": {"a": 1}})
    assert (called.name, called.arguments) == ("say", {"a": 1})
    assert lazy.called(make_tool("find_tools", toolset=LAZY), {"query": "q"}) is None
