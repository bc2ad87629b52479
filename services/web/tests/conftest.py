"""The web service on the in-memory bus, its providers and its web played on loopback."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Any

import msgspec
import pytest
from tests.fakes.web import FakeWeb

from searchbus_bus import Bus, Call, MemoryBroker, Worker
from searchbus_contracts import Actor, ToolCall, ToolReply
from searchbus_contracts.web import WebResult, WebSearchReply, WebSearchRequest
from searchbus_runtime import Process
from searchbus_testing import serve
from searchbus_web.service import start
from searchbus_web.settings import WebSettings
from searchbus_web.tools import ROLE


@dataclass
class WebUnderTest:
    """The fakes, and a caller's connection."""

    fake: FakeWeb
    url: str
    broker: MemoryBroker
    bus: Bus
    ddg: list[WebSearchRequest]
    _exit: AsyncExitStack

    async def start(self, **options: Any) -> Process[WebSettings]:
        """Start the service; routes lead *.example.org and *.example.net to the fake."""
        place = self.url.removeprefix("http://")
        settings = WebSettings(
            **{
                "tavily_url": f"{self.url}/tavily",
                "brave_url": f"{self.url}/brave",
                "tavily_rpm": 0,
                "brave_rpm": 0,
                "web_routes": {"*.example.org": place, "*.example.net": place},
                "extract_page_timeout_s": 2.0,
                **options,
            }
        )
        process: Process[WebSettings] = Process("web", settings, self.broker.connect(name="web"))
        self._exit.push_async_callback(process.drain)
        await start(process)
        return process

    async def call(
        self,
        tool: str,
        *,
        roles: tuple[str, ...] = (ROLE,),
        timeout_s: float = 25.0,
        **arguments: Any,
    ) -> Any:
        """The structured answer of a tool; raises Fault."""
        reply = await self.bus.request(
            self.bus.subjects.tool("web", tool),
            ToolCall(tool=tool, arguments=msgspec.Raw(json.dumps(arguments).encode())),
            ToolReply,
            service="web",
            timeout_s=timeout_s,
            actor=Actor(subject="test", roles=roles),
        )
        return reply.structured

    async def extract(
        self, *paths: str, host: str = "pages.example.org", **options: Any
    ) -> list[Any]:
        """The items of web_extract_content for pages of the fake web."""
        urls = [p if "://" in p else f"http://{host}{p}" for p in paths]
        return (await self.call("web_extract_content", urls=urls, **options))["items"]


@pytest.fixture
async def web() -> AsyncIterator[WebUnderTest]:
    """Not started yet; a stand-in for the DuckDuckGo fleet answers on the bus."""
    fake, broker = FakeWeb(), MemoryBroker()
    asked: list[WebSearchRequest] = []
    worker = Worker("ddg")

    async def search(call: Call, request: WebSearchRequest) -> WebSearchReply:
        asked.append(request)
        rows = tuple(
            WebResult(title=f"Duck {n}", url=f"http://duck{n}.example.org/{n}", snippet=f"Row {n}.")
            for n in range(request.limit)
        )
        return WebSearchReply(results=rows, provider="duckduckgo", fetched_at_ms=1)

    worker.endpoint("search", WebSearchRequest, search)
    async with AsyncExitStack() as exit_, serve(fake.app) as url:
        await broker.connect(name="ddg").serve(worker)
        yield WebUnderTest(fake, url, broker, broker.connect(name="caller"), asked, exit_)
        await exit_.aclose()
