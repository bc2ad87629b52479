"""The service is wired from its settings."""

from __future__ import annotations

from searchbus_bus import MemoryBroker
from searchbus_contracts import Actor
from searchbus_contracts.toolindex import FindReply, FindRequest
from searchbus_runtime import Process
from searchbus_toolindex import SERVICE
from searchbus_toolindex.service import build_worker, start
from searchbus_toolindex.settings import ToolindexSettings

from .test_follower import tool, worker


def test_worker_offers_what_the_declaration_says():
    """Permissions on the bus are derived from the declaration."""
    made = build_worker(None)  # type: ignore[arg-type]
    assert set(made.endpoints) == set(SERVICE.endpoints)


async def test_service_finds_the_tools_of_others(tmp_path):
    """From the moment on that it serves; the vectors are kept in its data folder."""
    broker = MemoryBroker()
    await broker.connect().serve(worker(tool("send", "send mail")))
    settings = ToolindexSettings(embedder="hash", data_dir=tmp_path)
    process = Process("toolindex", settings, broker.connect())
    async with process.resources:
        await start(process)
        bus = broker.connect()
        reply = await bus.request(
            bus.subjects.endpoint("toolindex", "search"), FindRequest(query="send mail"),
            FindReply, service="toolindex", timeout_s=10, actor=Actor(subject="a"),
        )  # fmt: skip
        assert [found.name for found in reply.found] == ["send"]
        assert settings.vector_file(384).stat().st_size > 0
