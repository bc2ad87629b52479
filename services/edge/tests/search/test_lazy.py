"""find_tools and call_tool."""

from __future__ import annotations

import pytest

from searchbus_contracts import ErrorCode, Fault
from searchbus_edge.lists.view import View
from searchbus_edge.search.lazy import LAZY, LAZY_TOOLS, LazyTools


class Finder:
    """Finds what the test says."""

    def __init__(self):
        self.found, self.limit = [], 0

    async def best_tools(self, actor, view, query, limit):
        self.limit = limit
        if query == "fail":
            raise Fault(ErrorCode.UNAVAILABLE, "Gone.")
        return self.found


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
    schema = {"type": "object", "properties": {"a": {}}, "required": ["a"]}
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


def test_call_tool_names_the_tool_and_its_arguments(finder, make_tool):
    """requests.tool_calls follows it; find_tools names none."""
    lazy = LazyTools(finder)
    listed = make_tool("call_tool", toolset=LAZY)
    called = lazy.called(listed, {"name": "say", "arguments": {"a": 1}})
    assert (called.name, called.arguments) == ("say", {"a": 1})
    assert lazy.called(make_tool("find_tools", toolset=LAZY), {"query": "q"}) is None
