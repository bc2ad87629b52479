"""The service as a process would wire it."""

from __future__ import annotations

from searchbus_attach.service import start
from searchbus_attach.settings import AttachSettings
from searchbus_bus import MemoryBroker
from searchbus_contracts import Actor, Fault, ToolCall, ToolReply
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


async def test_a_worker_that_ends_frees_the_leases_of_its_sessions(tmp_path):
    """While the bus is still connected."""
    write_toml(tmp_path / "attach.toml", {"plain": plain_keys(state="stateful")})
    broker = MemoryBroker()
    bus = broker.connect(name="attach")
    process = Process("attach", AttachSettings(data_dir=tmp_path), bus)
    await start(process)

    async def called() -> bool:
        try:
            await bus.request(
                bus.subjects.tool("plain", "echo"), ToolCall(tool="echo"), ToolReply,
                service="attach", timeout_s=60, actor=Actor(subject="x"),
            )  # fmt: skip
        except Fault:
            return False
        return True

    await until(called)
    (leases,) = (kept for name, kept in broker.buckets.items() if name.endswith("_sessions"))
    assert len(await leases.keys()) == 1
    await process.drain()
    assert await leases.keys() == []
    assert children() == []
