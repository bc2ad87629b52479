"""find_tools and call_tool."""

from __future__ import annotations

import json

import msgspec
import pytest

from searchbus_bus import Worker
from searchbus_contracts import ErrorCode, Fault, ToolCall
from searchbus_edge.catalog.view import LAZY, View
from searchbus_edge.search.lazy import TOOL_REFERENCES, Lazy, own_tools
from searchbus_edge.tools.call import Served
from searchbus_edge.tools.faults import invalid_params
from searchbus_edge.tools.reply import Reply
from searchbus_edge.tools.resolve import Resolver


class Finder:
    """Finds what the test says."""

    def __init__(self):
        self.found, self.limit, self.certain, self.admitted = [], 0, True, []
        self.is_offered = True

    def offered(self):
        return self.is_offered

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


class Registry:
    """Has one view."""

    unseen = ()

    def __init__(self):
        self.everything = View((0, True, 0))

    def view(self, toolset):
        return self.everything


class Calls:
    """Replies to every call, and keeps it."""

    def __init__(self, registry):
        self.resolver = Resolver(registry)
        self.requests = []
        self.fault = None

    async def call(self, request):
        self.requests.append(request)
        if self.fault:
            raise self.fault
        return Served(request.target.called, Reply(structured=b'{"a":1}'))


class Caller:
    remaining_s = 3.0
    credits = 0.0

    def __init__(self, actor):
        self.actor = actor


@pytest.fixture
def registry():
    return Registry()


@pytest.fixture
def calls(registry):
    return Calls(registry)


@pytest.fixture
def ask(finder, registry, calls, reader):
    """Calls one of the two tools as their worker does."""
    worker = Worker("connector")
    worker.add(Lazy(finder, registry, calls))

    async def run(name, capabilities=(), /, **arguments):
        given = msgspec.Raw(json.dumps(arguments).encode())
        request = ToolCall(tool=name, arguments=given, client_capabilities=capabilities)
        return await worker.find_tool(LAZY, name)(Caller(reader), request)

    return run


@pytest.fixture
def find(ask):
    """Calls find_tools."""

    async def run(**arguments):
        return await ask("find_tools", **arguments)

    return run


def test_both_tools_are_described():
    """Arguments with descriptions, results as a list."""
    find, call = own_tools()
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
    assert finder.limit == 5 + 2
    (full,) = (await find(query="q", detail="full")).structured["results"]
    assert (full["description"], full["input_schema"]) == (text, schema)


async def test_tools_that_call_tool_cannot_call_are_left_out(find, finder, make_tool):
    """find_tools and call_tool; the limit is filled with others."""
    finder.found = [make_tool("call_tool", toolset=LAZY), make_tool("x"), make_tool("y")]
    found = (await find(query="q", limit=1)).structured["results"]
    assert [result["name"] for result in found] == ["x"]


async def test_references_are_for_clients_that_ask(look, ask, finder, make_tool):
    """One for each tool of the page, under its listed name; none of a hidden tool."""
    finder.found = [make_tool("x", listed_as="t_x")]

    async def references(**arguments):
        reply = await ask("find_tools", (TOOL_REFERENCES,), **arguments)
        plain = await look(**arguments)
        assert plain.meta is None
        assert (reply.structured, reply.content) == (plain.structured, plain.content)
        return [(r["type"], r["tool_name"]) for r in reply.meta[TOOL_REFERENCES]]

    assert await references(query="q") == [("tool_reference", "t_x")]
    assert await references() == []
    found = await references(toolset="t0", offset=50)
    assert len(found) == 21
    assert "t0_secret" not in str(found)


async def test_long_sentences_are_cut(find, finder, make_tool):
    """At a word."""
    finder.found = [make_tool("x", description="word " * 100)]
    (brief,) = (await find(query="q")).structured["results"]
    assert len(brief["summary"]) <= 200
    assert brief["summary"].endswith("word…")


async def test_failed_search_is_a_failure_of_the_call(find):
    """Which the edge shows as an error result."""
    with pytest.raises(Fault, match="Gone"):
        await find(query="fail")


async def test_where_nothing_fits_the_nearest_two_are_marked(find, finder, make_tool):
    """In place of nothing; find_tools and call_tool are not counted."""
    finder.found = [make_tool("call_tool", toolset=LAZY), *map(make_tool, "xyz")]
    finder.certain = False
    found = (await find(query="q")).structured["results"]
    assert [(result["name"], result["confidence"]) for result in found] == [
        ("x", "low"),
        ("y", "low"),
    ]
    assert finder.nearest == 2 + 2
    assert len((await find(query="q", limit=1)).structured["results"]) == 1


@pytest.fixture
def look(find, registry, make_tool):
    """Calls find_tools over many toolsets, without a query; one toolset and one tool are hidden."""
    hidden = {"required_roles": ("SPY",)}
    tools = [make_tool(f"t{n}_a", toolset=f"t{n}", description="First. More.") for n in range(120)]
    tools += [make_tool(f"t0_b{n}", toolset="t0") for n in range(70)]
    tools += [
        make_tool("t0_secret", toolset="t0", **hidden),
        make_tool("v", toolset="vault", **hidden),
    ]
    tools += [make_tool("find_tools", toolset=LAZY)]
    registry.everything = View((0, True, 0), tools={tool.name: tool for tool in tools})
    return find


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


async def test_overview_of_thousands_of_toolsets_stays_small(find, registry, make_tool):
    """Whatever their names are like."""
    tools = [make_tool(f"{'x' * 50}{n}", toolset=f"s{n % 3000}") for n in range(9000)]
    registry.everything = View((0, True, 0), tools={tool.name: tool for tool in tools})
    reply = await find()
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
    with pytest.raises(Fault) as caught:
        await look(toolset=name, **arguments)
    assert caught.value.code == ErrorCode.INVALID_ARGUMENT
    message = f"toolset: there is no {name}. Omit it to list the toolsets."
    assert caught.value.failure.message == message


async def test_search_in_a_toolset_asks_for_it_only(look, finder):
    """Of the index."""
    await look(query="q", toolset="t1")
    assert finder.toolset == "t1"


def test_call_tool_has_another_name_where_a_host_reserves_it():
    """Its own name stays what the edge knows it by."""
    assert own_tools("call_tool") == own_tools()
    find, call = own_tools("run_tool")
    assert (find.name, call.name, call.qualified_name) == ("find_tools", "call_tool", "run_tool")


def test_both_are_in_the_catalogue(finder, registry, calls):
    """With the descriptors that endpoints list, which the tool index reads."""
    worker = Worker("connector")
    worker.add(Lazy(finder, registry, calls))
    assert sorted(own_tools(), key=lambda tool: tool.name) == list(worker.catalog.tools)


@pytest.fixture
def with_call_tool(registry, make_tool):
    """call_tool, under another name, and a tool that it can call."""
    own = make_tool("call_tool", listed_as="run_tool", toolset=LAZY)
    tools = {"run_tool": own, "say": make_tool("say")}
    registry.everything = View((0, True, 0), tools=tools, tool_of={(LAZY, "call_tool"): own})


async def test_call_on_the_bus_is_served_as_a_call_at_the_edge(ask, calls, reader, with_call_tool):
    """For the same caller, under the listed name, within the time that is left."""
    reply = await ask("call_tool", name="say", arguments={"a": 1})
    (request,) = calls.requests
    assert reply.structured == {"a": 1}
    assert (request.actor, request.target.name, request.timeout_s) == (reader, "run_tool", 3.0)
    assert request.target.called.name == "say"
    assert request.arguments == {"name": "say", "arguments": {"a": 1}}


@pytest.mark.parametrize(("name", "arguments"), [("find_tools", {}), ("call_tool", {"name": "x"})])
async def test_without_a_tool_index_both_are_unavailable(ask, finder, name, arguments):
    """As at the endpoints, which do not list them."""
    finder.is_offered = False
    with pytest.raises(Fault) as caught:
        await ask(name, **arguments)
    assert caught.value.code == ErrorCode.UNAVAILABLE


async def test_unknown_tool_on_the_bus_is_an_invalid_argument(ask, calls, with_call_tool):
    """A protocol error has no meaning there."""
    calls.fault = invalid_params("Unknown tool: x.")
    with pytest.raises(Fault, match="Unknown tool: x") as caught:
        await ask("call_tool", name="x")
    assert caught.value.code == ErrorCode.INVALID_ARGUMENT
