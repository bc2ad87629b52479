"""A searchbus attached to itself offers nothing; another one can be attached."""

from __future__ import annotations

import logging
from pathlib import Path

from mcp import Client

from searchbus_bus import MemoryBroker
from searchbus_edge.app import build_app
from searchbus_edge.bootstrap import open_edge
from searchbus_edge.settings import EdgeSettings
from searchbus_runtime import Health
from searchbus_runtime.server import HttpServer
from searchbus_testing import known, until

from .conftest import EVERYBODY

PROBLEM = "it is this searchbus itself; searchbus attach remove self"


async def test_a_searchbus_is_not_attached_to_itself(serve_attached, tmp_path: Path, caplog):
    """Its lists would contain themselves, longer each time."""
    caplog.set_level(logging.WARNING, "searchbus.attach")
    url = await serve_attached("")
    async with Client(f"{url}/mcp") as client:
        before = [tool.name for tool in (await client.list_tools()).tools]
        (tmp_path / "attach.toml").write_text(f'[servers.self]\nurl = "{url}/mcp"\n')
        await until(lambda: PROBLEM in caplog.text)
        assert [tool.name for tool in (await client.list_tools()).tools] == before


async def test_another_searchbus_is_attached(serve_attached):
    """One on another bus: its edge does not know the worker that asks."""
    bus = MemoryBroker().connect(name="other")
    async with open_edge(bus, EdgeSettings(), default_actor=EVERYBODY) as edge:
        await bus.serve(edge.connector)
        await known(edge.directory, "connector")
        server = await HttpServer.start(build_app(edge, Health()))
        try:
            url = await serve_attached(f'[servers.other]\nurl = "{server.url}/mcp"\n', "other")
            async with Client(f"{url}/mcp") as client:
                names = [tool.name for tool in (await client.list_tools()).tools]
            assert any(name.startswith("other__") for name in names)
        finally:
            await edge.end_streams()
            await server.stop()
    await bus.close()
