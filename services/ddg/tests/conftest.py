"""Workers of a fleet in one process, each with its own source address, against the fake."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import msgspec
import pytest

from searchbus_bus import Bus, MemoryBroker, connect
from searchbus_bus.store.keyvalue import MemoryKeyValue
from searchbus_contracts import Actor, ToolCall, ToolReply
from searchbus_ddg.service import start
from searchbus_ddg.settings import DdgSettings
from searchbus_fakes.ddg import FakeDuckDuckGo
from searchbus_runtime import Process
from searchbus_testing import serve


@dataclass
class FleetUnderTest:
    """Workers, the fake DuckDuckGo, and a caller's connection."""

    fake: FakeDuckDuckGo
    fake_url: str
    connect: Callable[[str], Awaitable[Bus]]
    bus: Bus
    _exit: AsyncExitStack
    processes: list[Process[DdgSettings]] = field(default_factory=list)

    async def start_worker(self, **options: Any) -> Process[DdgSettings]:
        """Start one more worker; the first one's address is 127.0.0.31, and so on."""
        number = len(self.processes)
        settings = DdgSettings(
            worker_index=number,
            ddg_html_url=f"{self.fake_url}/html/",
            ddg_lite_url=f"{self.fake_url}/lite/",
            ddg_instant_url=f"{self.fake_url}/instant",
            **{
                "ddg_egress": tuple(f"bind:127.0.0.{n}" for n in range(31, 39)),
                "ddg_interval_s": 0.0,
                "ddg_min_interval_s": 0.0,
                **options,
            },
        )
        process = Process("ddg", settings, await self.connect(f"ddg{number}"))
        self.processes.append(process)
        await start(process)
        self._exit.push_async_callback(process.drain)
        return process

    async def call(
        self, tool: str, timeout_s: float = 20.0, caller: str = "test", **arguments: Any
    ) -> ToolReply:
        """Call a tool on the bus; raises Fault."""
        return await self.bus.request(
            self.bus.subjects.tool("ddg", tool),
            ToolCall(tool=tool, arguments=msgspec.Raw(json.dumps(arguments).encode())),  # type: ignore[arg-type]
            ToolReply,
            service="ddg",
            timeout_s=timeout_s,
            actor=Actor(subject=caller),
        )

    async def search(self, query: str, **options: Any) -> str:
        """Return the text of web_search."""
        reply = await self.call("web_search", query=query, **options)
        return reply.content[0].text


@asynccontextmanager
async def _fleet(connect_as: Callable[[str], Awaitable[Bus]]) -> AsyncIterator[FleetUnderTest]:
    fake = FakeDuckDuckGo()
    async with AsyncExitStack() as exit_, serve(fake.app) as url:
        bus = await connect_as("caller")
        exit_.push_async_callback(bus.close)
        yield FleetUnderTest(fake, url, connect_as, bus, exit_)
        await exit_.aclose()


@pytest.fixture
async def fleet() -> AsyncIterator[FleetUnderTest]:
    """A fleet on the in-memory broker; the tests start as many workers as they need."""
    broker = MemoryBroker()

    async def connect_as(name: str) -> Bus:
        return broker.connect(name=name)

    async with _fleet(connect_as) as found:
        yield found


@pytest.fixture
async def nats_fleet(own_nats_server, tmp_path) -> AsyncIterator[FleetUnderTest]:
    """The same on a real NATS server, for leases and queue groups."""
    server = own_nats_server("-js", "-sd", str(tmp_path / "js"))

    async def connect_as(name: str) -> Bus:
        return await connect(server.url, name=name, prefix="t")

    async with _fleet(connect_as) as found:
        yield found


class Counted(MemoryKeyValue):
    """Counts requests, and the messages to those who watch."""

    requests = messages = 0

    async def _round_trip(self) -> None:
        self.requests += 1
        await super()._round_trip()

    def _report(self, key, value) -> None:
        self.messages += len(self._watchers)
        super()._report(key, value)


@pytest.fixture
def leases():
    return Counted(ttl_s=60)


@pytest.fixture
def refusals():
    return Counted(ttl_s=3600)
