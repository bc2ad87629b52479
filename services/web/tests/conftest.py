"""The web service on the in-memory bus; a fake plays its providers and the web on loopback."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from searchbus_bus import Bus, Call, MemoryBroker, Worker, endpoint
from searchbus_bus.client.request import OnEvent
from searchbus_contracts import Actor, Fault, ToolCall, ToolReply
from searchbus_contracts.engines import (
    EngineRequest,
    EngineState,
    EngineStatesReply,
    EngineStatesRequest,
)
from searchbus_contracts.web import WebResult, WebSearchReply, WebSearchRequest
from searchbus_fakes.web import FakeWeb
from searchbus_runtime import Process
from searchbus_testing import serve
from searchbus_web.extraction.reading import (
    PageBytes,
    PageText,
    Question,
    RobotsAnswer,
    RobotsQuestion,
    answer,
    read_page,
)
from searchbus_web.service import start
from searchbus_web.settings import WebSettings
from searchbus_web.tools import ROLE


class FakeDuckDuckGo:
    """The endpoint `ddg.search`: as many rows as requested."""

    def __init__(self, requests: list[WebSearchRequest]) -> None:
        self.requests = requests

    @endpoint
    async def search(self, call: Call, request: WebSearchRequest) -> WebSearchReply:
        self.requests.append(request)
        day = f"{datetime.now(UTC):%Y-%m-%d}" if request.time else None
        rows = tuple(
            WebResult(title=f"Duck {n}", url=f"http://duck{n}.example.org/{n}",
                      snippet=f"Row {n}.", published_at=day)
            for n in range(request.limit)
        )  # fmt: skip
        return WebSearchReply(results=rows, provider="duckduckgo", fetched_at_ms=1)

    @endpoint
    async def engine(self, call: Call, request: EngineRequest) -> WebSearchReply:
        """Ten rows on each of three pages, the first of which every engine has."""
        self.requests.append(request)
        if f"no-{request.engine}" in request.query.split():
            raise Fault("upstream_blocked", f"{request.engine} refuses.", retry_after_ms=9000)
        first = 10 * (request.page - 1)
        hosts = ["shared.example.org", *(f"{request.engine}{n}.example.net" for n in range(9))]
        rows = tuple(
            WebResult(title=f"{host} {first}", url=f"http://{host}/{first}",
                      published_at=f"{datetime.now(UTC):%Y-%m-%d}")
            for host in hosts
        )  # fmt: skip
        none = "nothing" in request.query.split()
        return WebSearchReply(
            results=() if none else rows, provider=request.engine, fetched_at_ms=1,
            more=request.page < 3 and not none,
        )  # fmt: skip

    @endpoint
    async def engines(self, call: Call, request: EngineStatesRequest) -> EngineStatesReply:
        cooling = EngineState(
            engine="marginalia", state="cooling", outcome="challenge", retry_after_ms=9000
        )
        return EngineStatesReply((cooling, EngineState(engine="ddg", state="ready")))


class InlineReaderPool:
    """Parses pages in this process: for tests whose pages are harmless."""

    def __init__(self, size: int = 1, *, timeout_s: float = 5.0) -> None:
        pass

    async def __aenter__(self) -> InlineReaderPool:
        return self

    async def __aexit__(self, *_: object) -> None:
        pass

    async def read(self, page: PageBytes, *, caller: str = "") -> PageText:
        return read_page(page)

    async def read_json(self, question: Question, *, caller: str = "") -> bytes | str:
        return answer(question).body

    def prepare(self) -> None:
        pass

    async def obey(self, question: RobotsQuestion, *, caller: str = "") -> RobotsAnswer:
        return answer(question)


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
        """Start the service; its allowlist leads *.example.org and *.example.net to the fake."""
        place = self.url.removeprefix("http://")
        settings = WebSettings(
            **{
                "tavily_url": f"{self.url}/tavily",
                "brave_url": f"{self.url}/brave",
                "tavily_rpm": 0,
                "brave_rpm": 0,
                "web_routes": {"*.example.org": place, "*.example.net": place},
                "extract_page_timeout_s": 2.0,
                "extract_processes": 1,
                **options,
            }
        )
        process: Process[WebSettings] = Process("web", settings, self.broker.connect(name="web"))
        self._exit.push_async_callback(process.drain)
        await start(process)
        return process

    credits = 0.0
    """What the last call cost, as its reply says."""

    async def call(
        self,
        tool: str,
        *,
        toolset: str = "web",
        roles: tuple[str, ...] = (ROLE,),
        endpoint: str | None = None,
        timeout_s: float = 25.0,
        on_event: OnEvent | None = None,
        **arguments: Any,
    ) -> Any:
        """Call a tool; return its structured reply or raise Fault."""
        reply = await self.bus.request(
            self.bus.subjects.tool(toolset, tool),
            ToolCall(tool=tool, arguments=msgspec.Raw(json.dumps(arguments).encode())),
            ToolReply,
            service="web",
            timeout_s=timeout_s,
            actor=Actor(subject="test", roles=roles, endpoint=endpoint),
            on_event=on_event,
        )
        self.credits = reply.credits
        return reply.structured

    async def extract(
        self, *paths: str, host: str = "pages.example.org", **options: Any
    ) -> list[Any]:
        """Extract pages of the fake web; return the items."""
        urls = [p if "://" in p else f"http://{host}{p}" for p in paths]
        return (await self.call("web_extract_content", urls=urls, **options))["items"]


@pytest.fixture
async def web_with_processes() -> AsyncIterator[WebUnderTest]:
    """Not started yet; pages are parsed in child processes."""
    async with _web() as found:
        yield found


@pytest.fixture
async def web(monkeypatch) -> AsyncIterator[WebUnderTest]:
    """Not started yet; pages are parsed in this process."""
    monkeypatch.setattr("searchbus_web.service.ReaderPool", InlineReaderPool)
    async with _web() as found:
        yield found


@asynccontextmanager
async def _web() -> AsyncIterator[WebUnderTest]:
    """The DuckDuckGo service is a worker that returns made-up rows."""
    fake, broker = FakeWeb(), MemoryBroker()
    requests: list[WebSearchRequest] = []
    worker = Worker("ddg")
    worker.add(FakeDuckDuckGo(requests))
    async with AsyncExitStack() as exit_, serve(fake.app) as url:
        await broker.connect(name="ddg").serve(worker)
        yield WebUnderTest(fake, url, broker, broker.connect(name="caller"), requests, exit_)
        await exit_.aclose()
