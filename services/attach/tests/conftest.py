"""Servers of every kind, and a gateway over the in-memory bus."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import psutil
import pytest

from searchbus_attach import gateway
from searchbus_attach.declare.attach_file import AttachFile
from searchbus_attach.declare.servers import Server, parse_server
from searchbus_attach.definitions.describe import ServerTools
from searchbus_attach.definitions.pinning import Approvals
from searchbus_attach.gateway import Gateway
from searchbus_attach.managing import Managing
from searchbus_attach.policy import CallPolicy
from searchbus_attach.sessions.leases import Leases
from searchbus_attach.transports import child
from searchbus_attach.upstream.connection import ConnectionContext
from searchbus_attach.upstream.session import ServerRequest
from searchbus_attach.upstream.upstream import Upstream
from searchbus_bus import Bus, Directory, MemoryBroker, Request, Serving, Worker
from searchbus_contracts import Actor, ToolCall, ToolDescriptor, ToolReply
from searchbus_contracts.attach import StatusReply, StatusRequest
from searchbus_runtime.pins import PinFile
from searchbus_testing import command_of, descendants, until

PROGRAM = Path(__file__).with_name("programs") / "plain_server.py"
EVERYBODY = Actor(subject="test", roles=("*",))


def plain_keys(how: dict[str, Any] | None = None, **keys: Any) -> dict[str, Any]:
    """The keys of a server that runs programs/plain_server.py; `how` it behaves."""
    arguments = ["-I", "-S", str(PROGRAM), json.dumps(how or {})]
    return {"command": sys.executable, "args": arguments, **keys}


def plain(how: dict[str, Any] | None = None, **keys: Any) -> Server:
    """Such a server."""
    return parse_server("plain", plain_keys(how, **keys))


def write_toml(path: Path, servers: dict[str, dict[str, Any]]) -> None:
    """Write a file of servers; a value that is JSON is TOML too, but for objects."""
    lines = []
    for name, keys in servers.items():
        lines.append(f"[servers.{name}]")
        for key, value in keys.items():
            lines.append(f"{key} = {_toml(value)}")
    path.write_text("\n".join(lines) + "\n")


def _toml(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{json.dumps(k)} = {_toml(v)}" for k, v in value.items()) + "}"
    return json.dumps(value)


def children() -> list[psutil.Process]:
    """Processes below this one that run the server program."""
    return [p for p in descendants(os.getpid()) if str(PROGRAM) in command_of(p)]


@pytest.fixture(autouse=True)
def quick_ends(monkeypatch):
    """Processes that do not end by themselves are ended soon, and a new file is seen soon."""
    monkeypatch.setattr(gateway, "_LOOK_EVERY_S", 0.1)
    monkeypatch.setattr(child, "_CLOSED_GRACE_S", 0.3)
    monkeypatch.setattr(child, "_TERM_GRACE_S", 0.3)


@dataclass
class World:
    """A gateway on a bus, with its file."""

    bus: Bus
    directory: Directory
    gateway: Gateway
    path: Path
    pins: Path
    broker: MemoryBroker
    leases: Leases
    policy: CallPolicy
    serving: Serving
    worker_bus: Bus

    def write(self, **servers: dict[str, Any]) -> None:
        """Replace the file."""
        write_toml(self.path, servers)

    def tools(self, toolset: str) -> dict[str, ToolDescriptor]:
        """The tools of a toolset, as others on the bus see them."""
        return {
            tool.name: tool
            for catalog in self.directory.catalogs
            for tool in catalog.tools_of(toolset)
        }

    async def call(
        self,
        toolset: str,
        tool: str,
        *,
        timeout_s: float = 60.0,
        actor: Actor = EVERYBODY,
        **arguments: Any,
    ):
        """Call a tool over the bus, at this world's worker."""
        request = ToolCall(tool=tool, arguments=msgspec.Raw(json.dumps(arguments).encode()))
        return await self.ask(
            self.bus.subjects.tool(toolset, tool), request, ToolReply,
            timeout_s=timeout_s, actor=actor,
        )  # fmt: skip

    async def ask(self, subject: str, message: Any, reply_type: Any, **options: Any) -> Any:
        """Send a request to this world's worker."""
        options = {"timeout_s": 60.0, "actor": EVERYBODY, **options}
        return await self.bus.send(
            Request(
                subject, message, reply_type, service="attach",
                instance=self.serving.instance, **options,
            )
        )  # fmt: skip

    def sessions(self, name: str = "plain") -> int:
        """How many callers have their session at this worker."""
        return len(self.gateway._attached[name]._sessions._sessions)

    async def status(self, server: str | None = None) -> StatusReply:
        """What this world's worker says of its servers."""
        subject = self.bus.subjects.endpoint("attach", "status")
        found: StatusReply = await self.ask(subject, StatusRequest(server=server), StatusReply)
        return found

    async def until_up(self, name: str = "plain") -> None:
        """Wait until a server was connected, and its list is on the bus, from this worker too.

        One with a short idle time may be idle again before anybody looks.
        """

        async def up() -> bool:
            servers = {server.name: server for server in (await self.status()).servers}
            found = servers.get(name)
            return found is not None and found.state in ("up", "idle") and bool(self.tools(name))

        await until(up)
        await self.until_offered(name)

    async def until_offered(self, toolset: str) -> None:
        """Wait until this worker receives calls of a toolset."""
        own = f"sb.v1.at.{self.serving.instance}.tool.{toolset}.*"
        await until(lambda: own in {found.subject for found in self.broker.subscriptions})


@pytest.fixture
async def new_world(tmp_path) -> AsyncIterator[Callable[..., Any]]:
    """Make a gateway: `world = await new_world(plain=plain_keys())`.

    A second worker with the same file: `other = await new_world(broker=world.broker)`.
    """
    async with AsyncExitStack() as resources:

        async def make(
            poll_s: float = 300.0,
            grace_s: float = 3600.0,
            broker: MemoryBroker | None = None,
            **servers: Any,
        ) -> World:
            path, pins = tmp_path / "attach.toml", tmp_path / "attach-pins.json"
            if servers or not path.exists():
                write_toml(path, servers)
            broker = broker or MemoryBroker()
            bus = broker.connect(name="attach")
            resources.push_async_callback(bus.close)
            worker = Worker("attach", max_in_flight=2048)
            leases, policy = await Leases.over(bus), await CallPolicy.over(bus)
            gateway = await resources.enter_async_context(
                Gateway(
                    worker,
                    AttachFile(path, {"web"}),
                    Approvals(PinFile(pins)),
                    ConnectionContext(logs=tmp_path / "logs"),
                    leases,
                    bus,
                    policy,
                    poll_s=poll_s,
                    grace_s=grace_s,
                )
            )
            worker.add(Managing(gateway, AttachFile(path, {"web"}), None, policy.consent))
            serving = await bus.serve(worker)
            gateway.follow(serving.refresh, serving.instance)
            client = broker.connect(name="client")
            resources.push_async_callback(client.close)
            directory = Directory(client, refresh_s=0.5)
            await directory.start()
            resources.push_async_callback(directory.close)
            resources.push_async_callback(serving.drain, 1.0)
            return World(
                client, directory, gateway, path, pins, broker, leases, policy, serving, bus
            )

        yield make


async def call_tool(
    upstream: Upstream,
    call: Any,
    name: str,
    arguments: dict[str, Any],
    *,
    may_repeat: bool = False,
) -> Any:
    """Call a tool; its result as the server sent it."""

    def params(tools: ServerTools) -> dict[str, Any]:
        return {"name": tools.own_names[name], "arguments": arguments}

    return await upstream.request(
        call,
        ServerRequest(
            "tools/call", params, lambda raw: raw, "tool", "plain", name, None, object, may_repeat
        ),
    )
