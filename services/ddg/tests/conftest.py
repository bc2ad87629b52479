"""Workers of a fleet in one process, each with its own source address, against the fake."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from typing import Any

import msgspec
import pytest
from tests.fakes.ddg import FakeDuckDuckGo

from searchbus_bus import Bus, connect
from searchbus_contracts import Actor, ToolCall, ToolReply
from searchbus_ddg.service import start
from searchbus_ddg.settings import DdgSettings
from searchbus_runtime import Process
from searchbus_testing import serve


@dataclass
class FleetUnderTest:
    """Workers, the fake that they ask, and a caller's connection."""

    fake: FakeDuckDuckGo
    fake_url: str
    nats_url: str
    bus: Bus
    prefix: str
    _exit: AsyncExitStack
    processes: list[Process[DdgSettings]] = field(default_factory=list)

    async def start_worker(self, **options: Any) -> Process[DdgSettings]:
        """One more worker; its address is 127.0.0.<number>."""
        number = len(self.processes)
        settings = DdgSettings(
            nats_url=self.nats_url,
            subject_prefix=self.prefix,
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
        bus = await connect(self.nats_url, name=f"ddg{number}", prefix=self.prefix)
        process = Process("ddg", settings, bus)
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
        """The text of web_search."""
        reply = await self.call("web_search", query=query, **options)
        return reply.content[0].text


@pytest.fixture
async def fleet(own_nats_server, tmp_path, request) -> AsyncIterator[FleetUnderTest]:
    """No worker yet; the tests start as many as they need."""
    server = own_nats_server("-js", "-sd", str(tmp_path / "js"))
    fake = FakeDuckDuckGo()
    async with AsyncExitStack() as exit_, serve(fake.app) as url:
        bus = await connect(server.url, name="caller", prefix="t")
        exit_.push_async_callback(bus.close)
        yield FleetUnderTest(fake, url, server.url, bus, "t", exit_)
        await exit_.aclose()
