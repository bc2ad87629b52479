"""find_tools and call_tool."""

from __future__ import annotations

import mcp_types as types
import pytest
from mcp.shared.exceptions import MCPError

from searchbus_contracts import ErrorCode, Fault
from searchbus_edge.calls.faults import internal_error, invalid_params
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
def call(finder, make_tool, reader):
    """Calls a lazy tool; `inner` answers for the tool behind call_tool."""
    view = View((0, True), tools={"find_tools": make_tool("find_tools", toolset=LAZY)})

    async def run(name, inner=None, /, **arguments):
        params = types.CallToolRequestParams(name=name, arguments=arguments)
        return await LazyTools(finder).call(name, view, reader, params, inner)

    return run


def test_both_tools_are_described():
    """Arguments with descriptions, results as a list."""
    find, call = LAZY_TOOLS
    assert (find.name, call.name, find.toolset) == ("find_tools", "call_tool", "lazy")
    assert find.input_schema["properties"]["limit"]["maximum"] == 10
    assert find.output_schema["properties"]["results"]["type"] == "array"
    assert find.annotations.read_only_hint


async def test_found_tools_are_brief_unless_asked(call, finder, make_tool):
    """One line each and the required arguments; full adds description and schema."""
    schema = {"type": "object", "properties": {"a": {}}, "required": ["a"]}
    text = "First sentence. Second one."
    finder.found = [make_tool("x", listed_as="t_x", description=text, input_schema=schema)]
    (brief,) = (await call("find_tools", query="q")).structured_content["results"]
    assert brief == {"name": "t_x", "summary": "First sentence.", "required": ["a"]}
    assert finder.limit == 5
    (full,) = (await call("find_tools", query="q", detail="full")).structured_content["results"]
    assert (full["description"], full["input_schema"]) == (text, schema)


async def test_long_sentences_are_cut(call, finder, make_tool):
    """At a word."""
    finder.found = [make_tool("x", description="word " * 100)]
    (brief,) = (await call("find_tools", query="q")).structured_content["results"]
    assert len(brief["summary"]) <= 200
    assert brief["summary"].endswith("word…")


async def test_failed_search_is_an_error_result(call):
    """The model reads it."""
    assert (await call("find_tools", query="fail")).content[0].text == "unavailable: Gone."


async def test_call_tool_passes_name_and_arguments_on(call):
    """The result is the tool's."""

    async def inner(params):
        assert (params.name, params.arguments) == ("say", {"a": 1})
        return types.CallToolResult(content=[])

    result = await call("call_tool", inner, name="say", arguments={"a": 1})
    assert result.content == []


async def test_bad_call_is_an_error_result_that_names_the_way_on(call):
    """A model cannot read -32602 of a host."""

    async def unknown(params):
        raise invalid_params("Unknown tool: x. tools/list shows those there are.")

    result = await call("call_tool", unknown, name="x", arguments={})
    assert result.content[0].text == (
        "invalid_argument: Unknown tool: x. find_tools finds those there are."
    )


async def test_other_errors_stay_errors(call):
    """An internal error is none of the model's."""

    async def broken(params):
        raise internal_error()

    with pytest.raises(MCPError):
        await call("call_tool", broken, name="x", arguments={})


async def test_lazy_tools_do_not_call_themselves(call):
    """No recursion."""
    result = await call("call_tool", None, name="find_tools", arguments={})
    assert "cannot be called through itself" in result.content[0].text
