"""Attached servers and an edge, over the in-memory bus, in one process."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from searchbus_attach.declare.attach_file import AttachFile
from searchbus_attach.definitions.pinning import Approvals
from searchbus_attach.gateway import Gateway
from searchbus_attach.policy import CallPolicy
from searchbus_attach.sessions.leases import Leases
from searchbus_attach.upstream.connection import ConnectionContext
from searchbus_bus import MemoryBroker, Worker
from searchbus_contracts import Actor
from searchbus_contracts.attach import StatusRequest
from searchbus_edge.app import build_app
from searchbus_edge.bootstrap import open_edge
from searchbus_edge.settings import EdgeSettings
from searchbus_runtime import Health
from searchbus_runtime.pins import PinFile
from searchbus_runtime.server import HttpServer
from searchbus_testing import until

EVERYBODY = Actor(subject="test", roles=("*",))


@pytest.fixture
async def serve_attached(tmp_path: Path) -> AsyncIterator[Callable[..., Any]]:
    """Serve the servers of a file: `url = await serve_attached(text, "name")`.

    Returns once the named servers are up, and the edge lists their tools.
    """
    async with AsyncExitStack() as resources:

        async def start(text: str, *names: str) -> str:
            path = tmp_path / "attach.toml"
            path.write_text(text)
            broker = MemoryBroker()
            bus = broker.connect(name="attach")
            resources.push_async_callback(bus.close)
            worker = Worker("attach", max_in_flight=256)
            gateway = await resources.enter_async_context(
                Gateway(
                    worker,
                    AttachFile(path),
                    Approvals(PinFile(tmp_path / "attach-pins.json")),
                    ConnectionContext(logs=tmp_path),
                    await Leases.over(bus),
                    bus,
                    await CallPolicy.over(bus),
                )
            )
            serving = await bus.serve(worker)
            resources.push_async_callback(serving.drain, 1.0)
            gateway.follow(serving.refresh, serving.instance)
            edge = await resources.enter_async_context(
                open_edge(broker.connect(name="edge"), EdgeSettings(), default_actor=EVERYBODY)
            )
            server = await HttpServer.start(build_app(edge, Health()))
            resources.push_async_callback(server.stop)
            resources.push_async_callback(edge.end_streams)

            def up() -> bool:
                states = {s.name: s.state for s in gateway.status(StatusRequest()).servers}
                return all(
                    states.get(name, "up") == "up" and edge.registry.view(name).tools
                    for name in names
                )

            await until(up, timeout_s=300)
            return server.url

        yield start
