"""The service with its pages: callers of the bus sign in to a server, each for themselves."""

from __future__ import annotations

import asyncio
import base64

import msgspec
import pytest

from searchbus_attach.service import start
from searchbus_attach.settings import AttachSettings
from searchbus_bus import MemoryBroker
from searchbus_contracts import Actor, ErrorCode, Fault, ToolCall, ToolReply
from searchbus_contracts.attach import StatusReply, StatusRequest
from searchbus_runtime import Process
from searchbus_testing import run_command, until
from searchbus_testing.processes import free_port

from ..conftest import write_toml
from .browser import sign_in
from .conftest import KEY, declared_keys


@pytest.fixture
async def world(protected, tmp_path, monkeypatch):
    """A running service with a server that each caller signs in to."""
    key, port = base64.b64encode(KEY).decode(), free_port()
    monkeypatch.setenv("SEARCHBUS_ATTACH_VAULT_KEY", key)
    monkeypatch.setenv("SEARCHBUS_ATTACH_LOGIN_PORT", str(port))
    write_toml(tmp_path / "attach.toml", {"safe": declared_keys(protected, "authorization_code")})
    bus = MemoryBroker().connect(name="attach")
    process = Process("attach", AttachSettings(data_dir=tmp_path), bus)
    await start(process)
    yield bus
    await process.drain()


async def whoami(bus, caller: str) -> str:
    reply = await bus.request(
        bus.subjects.tool("safe", "whoami"), ToolCall(tool="whoami", arguments=msgspec.Raw(b"{}")),
        ToolReply, service="attach", timeout_s=60, actor=Actor(subject=caller),
    )  # fmt: skip
    return reply.content[0].text


async def problem(bus) -> str:
    reply = await bus.request(
        bus.subjects.endpoint("attach", "status"), StatusRequest(), StatusReply,
        service="attach", timeout_s=60, actor=Actor(subject="cli"),
    )  # fmt: skip
    (server,) = reply.servers
    return server.problem


async def login_address(bus, caller: str) -> str:
    with pytest.raises(Fault) as fault:
        await whoami(bus, caller)
    assert fault.value.code == ErrorCode.LOGIN_REQUIRED
    return fault.value.failure.message.rpartition(" ")[2]


@pytest.mark.slow
async def test_each_caller_calls_as_the_person_who_signed_in(world, protected, tmp_path):
    """The operator first, for the list and for commands; a logout ends it for its caller only."""

    async def command(*words: str):
        return await asyncio.to_thread(run_command, "attach", *words, data=tmp_path)

    async def waits() -> bool:
        return "searchbus attach login safe" in await problem(world)

    await until(waits)
    printed = await command("login", "safe")
    protected.provider.person = "the operator"
    assert (await sign_in(printed.stdout.strip())).status_code == 200

    tried = await command("test", "safe")
    assert "safe works" in tried.stdout, tried.stderr

    async def listed() -> bool:
        try:
            await whoami(world, "ann")
        except Fault as fault:
            return fault.code == ErrorCode.LOGIN_REQUIRED
        raise AssertionError("nobody signed in yet")

    await until(listed)
    for caller in ("ann", "bob"):
        protected.provider.person = f"{caller} at work"
        assert (await sign_in(await login_address(world, caller))).status_code == 200
    assert await whoami(world, "ann") == "ann at work"
    assert await whoami(world, "bob") == "bob at work"
    done = await command("logout", "safe", "--caller", "ann")
    assert "forgotten and revoked" in done.stdout, done.stderr
    await login_address(world, "ann")
    assert await whoami(world, "bob") == "bob at work"
