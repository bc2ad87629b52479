"""Endpoints that join toolsets: the names of /mcp, nothing of other toolsets, keys of their own."""

from __future__ import annotations

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mcp import Client

from searchbus_contracts import Actor, ToolDescriptor
from searchbus_edge.catalog.view import ListedTool, View
from searchbus_edge.settings import EdgeSettings
from searchbus_edge.tools.resolve import Resolver
from searchbus_testing import until

DESK = {"desk": ("atlas", "bulk"), "both": ("atlas", "dictionary"), "none": ("absent",)}
OPEN = {"joined_endpoints": DESK, "toolset_order": ("dictionary",)}
STEP = {"id": "s", "tool": "say", "arguments": {}}


@pytest.fixture
async def client(running):
    """Builds a client of an endpoint; the edge serves its own tools, too."""
    await running.buses[0].serve(running.edge.connector)
    await until(lambda: running.edge.registry.offers("bulk"))

    def make(path: str, mode: str = "auto") -> Client:
        return Client(f"{running.url}{path}", mode=mode)

    return make


async def names(client: Client) -> list[str]:
    return [tool.name for tool in (await client.list_tools()).tools]


@pytest.mark.parametrize("running", [OPEN], indirect=True)
@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_tools_have_the_names_of_mcp(client, mode):
    """Also one whose name another toolset has; prompts and resources are those of the toolsets."""
    async with client("/mcp", mode) as everything, client("/mcp/both", mode) as both:
        of_mcp = await names(everything)
        assert await names(both) == [n for n in of_mcp if n in {*await names(both)}]
        assert {"look_up", "atlas_look_up", "say"} <= {*await names(both)}
        assert [p.name for p in (await both.list_prompts()).prompts] == ["define"]
        result = await both.call_tool("atlas_look_up", {})
        assert result.content[0].text == "from the atlas"
    async with client("/mcp/desk", mode) as desk:
        assert await names(desk) == ["atlas_look_up", "run_plan", "search_many"]
        assert (await desk.list_prompts()).prompts == []
        assert (await desk.list_resources()).resources == []
        for tool in ("look_up", "say", "atlas_odd"):
            with pytest.raises(Exception, match="Unknown tool"):
                await desk.call_tool(tool, {})
        with pytest.raises(Exception, match="Resource not found"):
            await desk.read_resource("dict://all")
    async with client("/mcp/none", mode) as none:
        assert await names(none) == []


@pytest.mark.parametrize("running", [OPEN], indirect=True)
@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_plan_reaches_only_the_tools_of_its_endpoint(client, mode):
    """A tool of /mcp is unknown there, as one that does not exist."""
    plan = {"steps": [STEP], "output": {"o": "$.s"}}
    absent = {"steps": [STEP | {"tool": "yas"}], "output": {"o": "$.s"}}
    within = {"steps": [STEP | {"tool": "atlas_look_up"}], "output": {"o": "$.s"}}
    async with client("/mcp", mode) as everything, client("/mcp/desk", mode) as desk:
        assert not (await everything.call_tool("run_plan", plan)).is_error
        refused = await desk.call_tool("run_plan", plan)
        unknown = await desk.call_tool("run_plan", absent)
        assert refused.is_error
        assert refused.content[0].text.replace("say", "yas") == unknown.content[0].text
        assert not (await desk.call_tool("run_plan", within)).is_error


@pytest.mark.parametrize("running", [OPEN], indirect=True)
async def test_plain_http_has_the_endpoint_too(running, client):
    """Its tools are called by its name, and the document describes them; a plan reaches no others."""
    async with httpx.AsyncClient(base_url=running.url, timeout=60) as http:
        assert "/mcp/desk" in (await http.get("/")).json()["endpoints"]
        called = await http.post("/api/v1/desk/atlas_look_up", json={})
        assert called.text == "from the atlas"
        assert (await http.post("/api/v1/desk/say", json={})).status_code == 404
        plan = {"steps": [STEP], "output": {"o": "$.s"}}
        assert (await http.post("/api/v1/bulk/run_plan", json=plan)).status_code == 200
        refused = await http.post("/api/v1/desk/run_plan", json=plan)
        assert "Unknown tool: say" in refused.text
        document = (await http.get("/openapi.json?toolset=desk")).json()
        assert "/api/v1/atlas/look_up" in document["paths"]
        assert "/api/v1/tools/say" not in document["paths"]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"web": ("fomc",)}, "of its own"),
        ({"a b": ("fomc",)}, "cannot be the name"),
        ({"desk": ("a/b",)}, "cannot be the name"),
        ({"desk": ()}, "at least 1"),
    ],
)
def test_setting_names_its_fault(given, message):
    """What clients are promised stays as it is."""
    with pytest.raises(ValueError, match=message):
        EdgeSettings(joined_endpoints=given)


TOOLSETS = ("a", "b", "c", "lazy")
members = st.lists(st.sampled_from(TOOLSETS), min_size=1, unique=True).map(tuple)
given_tools = st.lists(
    st.tuples(st.sampled_from(TOOLSETS), st.sampled_from(["", "BOSS"])), max_size=8
)


@given(tools=given_tools, members=members, roles=st.sampled_from([(), ("BOSS",), ("*",)]),
       named=st.integers(0, 8))  # fmt: skip
def test_no_call_at_an_endpoint_resolves_to_a_tool_of_others(
    make_tool_of, tools, members, roles, named
):
    """Neither by its own name nor by call_tool; what the caller may use on /mcp it may use here."""
    everything, actor = make_tool_of(tools), Actor(roles=roles)
    part = everything.part("desk", members)
    resolver = Resolver(_Registry(everything))
    assert part.tools == {
        name: tool for name, tool in everything.tools.items() if tool.descriptor.toolset in members
    }
    target = resolver.target(part, "call_tool", {"name": f"t{named}"})
    for called in (target.called, resolver.passed_on(target, f"t{named}").listed):
        assert called is None or called.descriptor.toolset in members
    direct = resolver.target(part, f"t{named}", {}).listed
    on_mcp = everything.tools.get(f"t{named}")
    assert direct is (on_mcp if on_mcp and on_mcp.descriptor.toolset in members else None)
    assert set(part.access(actor)) <= {True, False}


class _Registry:
    def __init__(self, everything: View) -> None:
        self._everything = everything
        self.unseen: list[str] = []

    def view(self, toolset: str | None) -> View:
        assert toolset is None
        return self._everything


@pytest.fixture(scope="module")
def make_tool_of():
    """Builds the view of /mcp from (toolset, role) of each tool; call_tool is always there."""

    def make(tools: list[tuple[str, str]]) -> View:
        named = [(f"t{n}", *tool) for n, tool in enumerate(tools)] + [("call_tool", "lazy", "")]
        listed = [
            ListedTool(
                name,
                ToolDescriptor(name=name, toolset=toolset, description="x",
                               input_schema={"type": "object"},
                               required_roles=(role,) if role else ()),
                "x",
            )
            for name, toolset, role in named
        ]  # fmt: skip
        return View((0, True, 0), tools={tool.name: tool for tool in listed})

    return make
