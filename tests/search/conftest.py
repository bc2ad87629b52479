"""Edge, tool index and documents over the in-memory bus, in one process; the real model."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from typing import Any

import pytest

from searchbus_bus import Call, MemoryBroker, Serving, Toolset, Worker, prompt
from searchbus_contracts import (
    Actor,
    TextContent,
    ToolCall,
    ToolDescriptor,
    ToolReply,
)
from searchbus_edge.app import build_app
from searchbus_edge.bootstrap import Edge, open_edge
from searchbus_edge.settings import EdgeSettings
from searchbus_ingest.sources.item import cut
from searchbus_retrieval.library import Library
from searchbus_retrieval.service import build_worker as retrieval_worker
from searchbus_runtime import Health
from searchbus_runtime.server import HttpServer
from searchbus_testing.folders import quick_folder
from searchbus_toolindex.embedding import Embeds, load_tool_embedder
from searchbus_toolindex.finder import IndexFinder
from searchbus_toolindex.follower import Follower
from searchbus_toolindex.index import Index
from searchbus_toolindex.service import build_worker as toolindex_worker
from searchbus_toolindex.vector_file import VectorFile
from searchbus_vectors import Embedder, load_embedder, open_store

READER = Actor(subject="reader", roles=("READER",))
TOOLS = {
    "get_forecast": "Get the weather forecast for a city.",
    "send_message": "Send an email with attachments.",
    "create_chart": "Create a pie or bar chart from a table of numbers.",
    "translate_text": "Translate text from one language into another.",
}


def office(tools: dict[str, str] = TOOLS, *, name: str = "office", **more: Any) -> Worker:
    """A worker whose tools say their own names."""
    worker = Worker(name)
    for tool, about in tools.items():

        async def reply(call: Call, request: ToolCall, tool: str = tool) -> ToolReply:
            return ToolReply(content=(TextContent(text=f"{tool} was called"),))

        worker.add_tool(
            ToolDescriptor(
                name=tool, toolset=name, description=about, input_schema={"type": "object"}, **more
            ),
            reply,
        )
    return worker


@dataclass
class Stack:
    """What runs, for tests to ask and to change."""

    url: str
    edge: Edge
    broker: MemoryBroker
    library: Library
    follower: Follower
    _exit: AsyncExitStack
    servings: dict[str, Serving] = field(default_factory=dict)

    async def serve(self, worker: Worker) -> Serving:
        """Start a worker on the bus."""
        bus = self.broker.connect(name=worker.service)
        serving = await bus.serve(worker)
        self._exit.push_async_callback(serving.drain, 1.0)
        self.servings[worker.service] = serving
        return serving


_embedders: list[Embedder] = []
_tool_embedders: list[Embeds] = []
_vectors = VectorFile(None)
"""Shared, so that each text is embedded once."""


async def shared_embedder() -> Embedder:
    """Loaded once; it belongs to no event loop."""
    if not _embedders:
        _embedders.append(await load_embedder(query_threads=2))
    return _embedders[0]


async def shared_tool_embedder() -> Embeds:
    """That of the tool index, loaded once."""
    if not _tool_embedders:
        _tool_embedders.append(await load_tool_embedder(query_threads=2))
    return _tool_embedders[0]


@pytest.fixture
async def stack(request: pytest.FixtureRequest) -> AsyncIterator[Stack]:
    """The stack; edge settings by `@pytest.mark.parametrize("stack", [{...}], indirect=True)`."""
    settings = EdgeSettings(**getattr(request, "param", {}))
    broker = MemoryBroker()
    async with AsyncExitStack() as exit_:
        embedder = await shared_embedder()
        store = await open_store(folder=exit_.enter_context(quick_folder()))
        exit_.push_async_callback(store.close)
        library = await Library.open(store, embedder)
        embedder = await shared_tool_embedder()
        index = Index(embedder.model)
        follower = await exit_.enter_async_context(
            Follower(
                broker.connect(name="toolindex"), index, embedder, _vectors,
                grace_s=0.5, refresh_s=0.3,
            )
        )  # fmt: skip
        stack = Stack("", None, broker, library, follower, exit_)  # type: ignore[arg-type]
        await stack.serve(toolindex_worker(IndexFinder(index, embedder)))
        await stack.serve(retrieval_worker(library))
        await stack.serve(office())
        await stack.serve(secret_office())
        stack.edge = await exit_.enter_async_context(
            open_edge(broker.connect(name="edge"), settings, default_actor=READER)
        )
        server = await HttpServer.start(build_app(stack.edge, Health()))
        stack.url = server.url
        while len(index) < 14:
            await asyncio.sleep(0.02)
        yield stack
        await stack.edge.end_streams()
        await server.stop()


def secret_office() -> Worker:
    """Tools and a prompt that the reader may not use."""
    worker = office(
        {"get_secret_forecast": "Get the secret weather forecast.", "zebra": "Counts zebras."},
        name="vault", required_roles=("SPY",),
    )  # fmt: skip
    worker.add(SecretPrompts())
    return worker


class SecretPrompts(Toolset, name="vault"):
    @prompt(title="Zebras", required_roles=("SPY",))
    def zebra_prompt(self) -> str:
        """Write about zebras."""
        return "psst"


async def add_document(library: Library, collection: str, key: str, title: str, text: str) -> None:
    """Store one document."""
    from searchbus_contracts.ingest import NewDocument

    await library.store(
        collection,
        NewDocument(document_id=key, title=title, text=text, chunks=tuple(cut(text))),
        {},
    )
