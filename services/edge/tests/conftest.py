"""A real edge on a free port, over the in-memory bus, with a worker that shows everything."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Annotated, Any

import pytest
from msgspec import Meta, Struct

from searchbus_bus import Bus, Call, MemoryBroker, Worker
from searchbus_contracts import (
    Actor,
    ErrorCode,
    Fault,
    PromptArgument,
    PromptDescriptor,
    PromptMessage,
    ResourceBody,
    ResourceDescriptor,
    ResourceReadReply,
    ResourceReadRequest,
    ResourceTemplate,
    TextContent,
    ToolDescriptor,
    ToolReply,
    describe_tool,
)
from searchbus_edge.bootstrap import open_edge
from searchbus_edge.edge import Edge
from searchbus_edge.http.app import build_app
from searchbus_edge.settings import EdgeSettings
from searchbus_runtime import Health
from searchbus_runtime.server import HttpServer


class Lookup(Struct, forbid_unknown_fields=True):
    word: Annotated[str, Meta(max_length=100, description="The word.")]
    count: Annotated[int, Meta(ge=1, le=50)] = 5


class Entry(Struct):
    word: str
    sense: str


class Nothing(Struct):
    pass


@dataclass
class Dictionary:
    """The worker's state, for tests to look at."""

    worker: Worker = field(default_factory=lambda: Worker("dictionary"))
    started: int = 0
    cancelled: int = 0

    def __post_init__(self) -> None:
        self.tool("look_up", Lookup, self.look_up, reply=Entry, renderer="json")
        self.tool("list_words", Lookup, self.list_words, reply=Entry, renderer="results")
        self.tool("say", Nothing, self.say)
        self.tool("fail", Nothing, self.fail)
        self.tool("break", Nothing, self.break_)
        self.tool("slow", Nothing, self.slow, timeout_ms=20_000)
        self.tool("brief", Nothing, self.slow, timeout_ms=200)
        self.tool("steps", Nothing, self.steps)
        self.tool("secret", Nothing, self.say, required_roles=("NOBODY",))
        self.worker.prompts(
            PromptDescriptor(
                name="define", toolset="dictionary", description="Defines.",
                arguments=(PromptArgument(name="word", required=True, values=("bus", "busy")),),
                messages=(PromptMessage(role="user", content=TextContent(text="Define {word}.")),),
            )
        )  # fmt: skip
        self.worker.resources(
            ResourceDescriptor(uri="dict://all", name="all", toolset="dictionary")
        )
        self.worker.resource_templates(
            ResourceTemplate(uri_template="dict://word/{word}", name="word", toolset="dictionary")
        )
        self.worker.reads_resources("dictionary", self.read)

    def tool(self, name: str, arguments: type[Struct], handler: Any, **options: Any) -> None:
        self.worker.tool(
            describe_tool(name, toolset="dictionary", title=name, description=f"Does {name}.",
                          arguments=arguments, **options),
            arguments,
            handler,
        )  # fmt: skip

    async def look_up(self, call: Call, arguments: Lookup) -> Entry:
        return Entry(arguments.word, "é ✓")

    async def list_words(self, call: Call, arguments: Lookup) -> list[Entry]:
        return [Entry(arguments.word, str(i)) for i in range(arguments.count)]

    async def say(self, call: Call, _: Nothing) -> ToolReply:
        return ToolReply(content=(TextContent(text="hello"),))

    async def fail(self, call: Call, _: Nothing) -> ToolReply:
        raise Fault(ErrorCode.RATE_LIMITED, "Too many. Wait.", retry_after_ms=1500)

    async def break_(self, call: Call, _: Nothing) -> ToolReply:
        raise RuntimeError("secret-canary")

    async def slow(self, call: Call, _: Nothing) -> ToolReply:
        self.started += 1
        try:
            await asyncio.sleep(15)
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        return ToolReply()

    async def steps(self, call: Call, _: Nothing) -> ToolReply:
        for step in range(1, 4):
            await call.progress(step, 3, f"step {step}")
        return ToolReply(content=(TextContent(text="done"),))

    async def read(self, call: Call, request: ResourceReadRequest) -> ResourceReadReply:
        if request.uri == "dict://word/none":
            raise Fault(ErrorCode.NOT_FOUND, "No such word.")
        body = ResourceBody(uri=request.uri, mime_type="text/plain", text=f"about {request.uri}")
        return ResourceReadReply(contents=(body,))


def colliding_worker() -> Worker:
    """Another service with a tool of the same name, and one broken schema."""
    worker = Worker("atlas")
    for name, schema in (
        ("look_up", {"type": "object"}),
        ("odd", {"type": "object", "properties": {"a": {"type": "nonsense"}}}),
    ):

        async def answer(call: Call, _: Nothing) -> ToolReply:
            return ToolReply(content=(TextContent(text="from the atlas"),))

        worker.tool(
            ToolDescriptor(
                name=name, toolset="atlas", description="Looks up.", input_schema=schema
            ),
            Nothing,
            answer,
        )
    return worker


@dataclass
class Running:
    """A running edge: its address, its parts, its workers."""

    url: str
    edge: Edge
    broker: MemoryBroker
    dictionary: Dictionary
    buses: list[Bus]


@pytest.fixture
async def running(request: pytest.FixtureRequest) -> AsyncIterator[Running]:
    """The edge with both workers; settings by `@pytest.mark.parametrize(..., indirect=True)`.

    The caller has not every role, so that a tool can be hidden.
    """
    reader = Actor(subject="reader", roles=("READER",))
    settings = EdgeSettings(**getattr(request, "param", {"toolset_order": ("dictionary",)}))
    broker = MemoryBroker()
    buses = [broker.connect(name=name) for name in ("edge", "dictionary", "atlas")]
    dictionary = Dictionary()
    await buses[1].serve(dictionary.worker)
    await buses[2].serve(colliding_worker())
    async with open_edge(buses[0], settings, default_actor=reader) as edge:
        server = await HttpServer.start(build_app(edge, Health()))
        yield Running(server.url, edge, broker, dictionary, buses)
        await edge.end_streams()
        await server.stop()
