"""The service as a process would wire it."""

from __future__ import annotations

from searchbus_attach.service import start
from searchbus_attach.settings import AttachSettings
from searchbus_bus import MemoryBroker
from searchbus_contracts import Actor
from searchbus_contracts.attach import StatusReply, StatusRequest
from searchbus_runtime import Process
from searchbus_testing import until

from .conftest import children, plain_keys, write_toml


async def test_it_serves_the_servers_of_its_file_and_ends_them(tmp_path):
    """From start to drain."""
    write_toml(tmp_path / "attach.toml", {"plain": plain_keys()})
    bus = MemoryBroker().connect(name="attach")
    process = Process("attach", AttachSettings(data_dir=tmp_path), bus)
    await start(process)

    async def up() -> bool:
        reply = await bus.request(
            bus.subjects.endpoint("attach", "status"), StatusRequest(), StatusReply,
            service="attach", timeout_s=30, actor=Actor(subject="x"),
        )  # fmt: skip
        return [server.state for server in reply.servers] == ["up"]

    await until(up)
    await process.drain()
    assert children() == []
    assert (tmp_path / "attach-pins.json").exists()
