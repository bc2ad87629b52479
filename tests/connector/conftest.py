"""An edge with its connector over the in-memory bus, and sources whose behaviour a test chooses."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from typing import Any

import msgspec
import pytest

from searchbus_bus import Call, MemoryBroker, Serving, Worker
from searchbus_bus.worker.worker import Endpoint
from searchbus_contracts import (
    Actor,
    ErrorCode,
    Fault,
    ToolCall,
    ToolDescriptor,
    ToolReply,
    decode,
)
from searchbus_contracts.retrieval import (
    Document,
    GetRequest,
    SearchHit,
    SearchReply,
    SearchRequest,
)
from searchbus_edge.app import build_app
from searchbus_edge.bootstrap import Edge, open_edge
from searchbus_edge.settings import EdgeSettings
from searchbus_runtime import Health
from searchbus_runtime.server import HttpServer, bind
from searchbus_testing import until
from searchbus_web.service import build_worker as build_web_worker
from searchbus_web.tools import WebExtract, WebSearch

TEXT = "The library holds a book about whales. " * 30


@dataclass
class Sources:
    """The retrieval and web services; `mode` of each: ok, slow, garbage, fault; of documents also empty."""

    modes: dict[str, str] = field(default_factory=lambda: {"retrieval": "ok", "web": "ok"})
    started: int = 0
    cancelled: int = 0
    fetched: list[str] = field(default_factory=list)

    async def act(self, name: str) -> None:
        """Do what the mode of the source says."""
        mode = self.modes[name]
        if mode == "slow":
            self.started += 1
            try:
                await asyncio.sleep(60)
            except asyncio.CancelledError:
                self.cancelled += 1
                raise
        if mode == "fault":
            raise Fault(ErrorCode.UPSTREAM_BLOCKED, "Refused.", retry_after_ms=9000)

    def retrieval(self) -> Worker:
        """Three documents, one without an address of its own."""
        worker = Worker("retrieval")

        async def search(call: Call, request: SearchRequest) -> Any:
            await self.act("retrieval")
            if self.modes["retrieval"] == "empty":
                return SearchReply(hits=())
            if self.modes["retrieval"] == "garbage":
                return {"hits": "many"}
            return SearchReply(hits=tuple(_hit(n) for n in range(3)), searched=("books",))

        async def get(call: Call, request: GetRequest) -> Document:
            await self.act("retrieval")
            if request.document_id not in ("d0", "d/1 ü", "d2"):
                raise Fault(ErrorCode.NOT_FOUND, "There is no document of that id.")
            return Document(
                collection="books", document_id=request.document_id, title="Whales", text=TEXT,
                chunk_count=1, chars=len(TEXT), metadata={"date": "2024-05-01", "type": "book", "empty": None},
            )  # fmt: skip

        # Without a reply type, so that a reply may be garbage.
        worker.endpoints["search"] = Endpoint(SearchRequest, search)
        worker.endpoints["get"] = Endpoint(GetRequest, get)
        return worker

    def web(self) -> Worker:
        """Ten results, the first of them a page that is a document too."""
        worker = Worker("web")

        async def search(call: Call, request: ToolCall) -> ToolReply:
            arguments = decode(bytes(request.arguments), WebSearch)
            await self.act("web")
            if self.modes["web"] == "garbage":
                return ToolReply(structured={"results": [{"nonsense": 1}]})
            rows = [
                {"title": "Same", "url": "https://www.books.example/0?utm_source=x", "snippet": "s"}
            ]
            rows += [
                {
                    "title": f"Page {n}",
                    "url": f"https://w{n}.example/",
                    "snippet": f"About whales {n}.",
                }
                for n in range(9)
            ]
            return ToolReply(structured={"query": arguments.query, "results": rows})

        async def extract(call: Call, request: ToolCall) -> ToolReply:
            arguments = decode(bytes(request.arguments), WebExtract)
            await self.act("web")
            self.fetched += arguments.urls
            items = [
                {
                    "url": u,
                    "content": f"<untrusted_text_ab>\nPage {u}\n\n{TEXT}\n</untrusted_text_ab>",
                    "status": "ok",
                }
                if "w8" not in u
                else {"url": u, "content": "", "status": "http_404", "message": "Gone."}
                for u in arguments.urls
            ]
            return ToolReply(structured={"items": items})

        real: Any = build_web_worker(None, None)  # type: ignore[arg-type]  (descriptors only)
        descriptors = {tool.name: tool for tool in real.catalog.tools}
        # As with a provider that is paid by the search.
        paid = msgspec.structs.replace(descriptors["web_search"], costly=True)
        worker.add_tool(paid, search)
        worker.add_tool(descriptors["web_extract_content"], extract)
        return worker


def _hit(n: int) -> SearchHit:
    key = ["d0", "d/1 ü", "d2"][n]
    url = [f"https://books.example/{n}", None, "file:///home/me/b.txt"][n]
    return SearchHit(
        collection="books", document_id=key, chunk_id=str(n), title=f"Book {n}",
        text=f"Chapter {n} says that whales sing.", score=1.0 - n / 10, cosine=0.8, relevance=0.9,
        url=url,
    )  # fmt: skip


@dataclass
class Stack:
    """What runs."""

    url: str
    edge: Edge
    sources: Sources
    broker: MemoryBroker
    servings: dict[str, Serving]


@pytest.fixture
async def stack(request: pytest.FixtureRequest, tmp_path) -> AsyncIterator[Stack]:
    """Edge settings, and `roles` of the caller, by indirect parameter."""
    options = dict(getattr(request, "param", {}))
    roles = options.pop("roles", ("*",))
    broker, sources = MemoryBroker(), Sources()
    async with AsyncExitStack() as exit_:
        servings = {}
        for worker in (sources.retrieval(), sources.web(), _namesake()):
            servings[worker.service] = await broker.connect(name=worker.service).serve(worker)
        settings = EdgeSettings(data_dir=tmp_path, **options)
        listener = bind("127.0.0.1", 0)
        base_url = settings.base_url(listener.getsockname()[1])
        caller = Actor(subject="caller", roles=roles)
        edge = await exit_.enter_async_context(
            open_edge(
                broker.connect(name="edge"), settings, base_url=base_url, default_actor=caller
            )
        )
        server = await HttpServer.start(build_app(edge, Health()), listener=listener)
        url = server.url
        servings["connector"] = await edge.bus.serve(edge.connector)

        async def all_are_known() -> bool:
            # One look at a busy machine may miss a worker.
            await edge.directory.refresh()
            return {"aaa", "connector", "web"} <= set(edge.registry.toolsets)

        await until(all_are_known)
        yield Stack(url, edge, sources, broker, servings)
        await edge.end_streams()
        await server.stop()


def _namesake() -> Worker:
    """Another service that has a tool called search."""
    worker = Worker("aaa")

    async def reply(call: Call, request: ToolCall) -> ToolReply:
        return ToolReply()

    descriptor = ToolDescriptor(
        name="search", toolset="aaa", description="Another.", input_schema={"type": "object"}
    )
    worker.add_tool(descriptor, reply)
    return worker
