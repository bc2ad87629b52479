"""The view of search results, and those of workers, through the SDK's own client."""

from __future__ import annotations

from typing import Any

import pytest
from mcp import Client
from mcp.client.extension import advertise

from searchbus_bus import Call, MemoryBroker, Worker
from searchbus_contracts import (
    Actor,
    ResourceBody,
    ResourceDescriptor,
    ResourceReadReply,
    ResourceTemplate,
    ToolDescriptor,
    ToolReply,
)
from searchbus_edge.app import build_app
from searchbus_edge.bootstrap import open_edge
from searchbus_edge.composites.gathering import FAILURES
from searchbus_edge.mcp.client import VIEWS
from searchbus_edge.mcp.extensions import MIME_TYPE
from searchbus_edge.settings import EdgeSettings
from searchbus_runtime import Health
from searchbus_runtime.server import HttpServer
from searchbus_testing import known

UI = {"ui": {"resourceUri": "ui://far/chart", "visibility": ["model"]}}
CSP = {"ui": {"csp": {"connectDomains": ["https://api.example"]}}}
SHOWS = advertise(VIEWS, {"mimeTypes": [MIME_TYPE]})


class Source:
    """What a worker of attached servers reads."""

    async def read(self, call: Call, request: Any) -> ResourceReadReply:
        body = ResourceBody(uri=request.uri, mime_type=MIME_TYPE, text="<p>", meta=CSP)
        return ResourceReadReply(contents=(body,))

    get_prompt = complete = read


@pytest.fixture
async def url():
    broker, worker = MemoryBroker(), Worker("far")

    async def reply(call: Call, request: Any) -> ToolReply:
        return ToolReply()

    worker.add_tool(
        ToolDescriptor(
            name="chart", toolset="far", description="Draws.", input_schema={"type": "object"},
            meta=UI,
        ),
        reply,
    )  # fmt: skip
    listed = ResourceDescriptor(uri="ui://far/chart", name="chart", toolset="far", meta=CSP)
    any_view = ResourceTemplate(uri_template="ui://far/{+uri}", name="any", toolset="far")
    worker.offer("far", resources=(listed,), templates=(any_view,), source=Source())
    await broker.connect(name="far").serve(worker)
    edge_bus = broker.connect(name="edge")
    settings = EdgeSettings(connector_sources={})
    async with open_edge(edge_bus, settings, default_actor=Actor(subject="reader")) as edge:
        await edge_bus.serve(edge.connector)
        await known(edge.directory, "far", "connector")
        server = await HttpServer.start(build_app(edge, Health()))
        yield server.url
        await edge.end_streams()
        await server.stop()


async def meta_of(client: Client, name: str) -> Any:
    return next(t.meta for t in (await client.list_tools()).tools if t.name == name)


@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_search_names_its_view_to_clients_that_show_views(url, mode):
    """The list of any other client is as before; older revisions do not say it at each request."""
    async with Client(f"{url}/mcp/connector", mode=mode) as client:
        assert await meta_of(client, "search") is None
    async with Client(f"{url}/mcp/connector", mode=mode, extensions=[SHOWS]) as client:
        meta = await meta_of(client, "search")
        if mode == "legacy":
            assert meta is None
            return
        assert await meta_of(client, "fetch") is None
        assert VIEWS in client.server_capabilities.extensions
        (view,) = (await client.read_resource(meta["ui"]["resourceUri"])).contents
        assert view.mime_type == MIME_TYPE
        assert "ui/notifications/tool-result" in view.text
        assert not (await client.list_resources()).resources


async def test_the_view_loads_nothing_and_writes_no_markup(url):
    """Titles are others' text."""
    async with Client(f"{url}/mcp") as client:
        (view,) = (await client.read_resource("ui://searchbus/search-results.html")).contents
    for forbidden in (
        "innerHTML",
        "insertAdjacentHTML",
        "document.write",
        "src=",
        "fetch(",
        "eval(",
    ):
        assert forbidden not in view.text
    assert f'_meta?.["{FAILURES}"]' in view.text  # the results have no other key
    assert "csp" not in view.meta["ui"]


async def test_the_views_of_workers_are_kept(url):
    """Also for clients that declare nothing: older hosts say so only once."""
    async with Client(f"{url}/mcp") as client:
        assert await meta_of(client, "chart") == UI
        (listed,) = [r for r in (await client.list_resources()).resources if r.name == "chart"]
        assert (listed.uri, listed.meta) == ("ui://far/chart", CSP)
        for uri in ("ui://far/chart", "ui://far/unlisted"):
            (view,) = (await client.read_resource(uri)).contents
            assert (view.uri, view.meta) == (uri, CSP)
