"""A real edge on a free port, over the in-memory bus, with a worker that shows everything."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Annotated, Any, Literal

import pytest
from msgspec import Meta, Struct
from msgspec.structs import replace

from searchbus_bus import (
    Bus,
    Call,
    Directory,
    MemoryBroker,
    Request,
    Toolset,
    Worker,
    prompt,
    resource,
    resource_template,
    tool,
)
from searchbus_contracts import (
    Actor,
    ErrorCode,
    Fault,
    ResourceBody,
    ResourceReadReply,
    ResourceReadRequest,
    TextContent,
    ToolCall,
    ToolDescriptor,
    ToolReply,
)
from searchbus_edge.app import build_app
from searchbus_edge.bootstrap import Edge, open_edge
from searchbus_edge.catalog.registry import Registry
from searchbus_edge.catalog.view import ListedTool
from searchbus_edge.settings import EdgeSettings
from searchbus_runtime import Health
from searchbus_runtime.server import HttpServer


def uncounted(bus: Bus) -> Any:
    """Sends requests of callers without limits; see CountedReads."""

    async def read(what: str, actor: Actor, request: Request[Any], arguments: Any) -> Any:
        return await bus.send(replace(request, actor=actor))

    return read


class UsedUp:
    """Stands for CountedReads of a caller whose limits are reached; `asked`: what was asked for."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    async def __call__(self, what: str, actor: Actor, request: Request[Any], arguments: Any) -> Any:
        self.asked.append(what)
        raise Fault(ErrorCode.RATE_LIMITED, "Too many calls. Wait.")


class Lookup(Struct, forbid_unknown_fields=True):
    word: Annotated[str, Meta(max_length=100, description="The word.")]
    count: Annotated[int, Meta(ge=1, le=50)] = 5


class Entry(Struct):
    word: str
    sense: str


class Nothing(Struct):
    pass


class Dictionary(Toolset, name="dictionary"):
    """The worker's tools, and counts for tests to look at."""

    def __init__(self) -> None:
        self.started = 0
        self.cancelled = 0

    @tool(title="look_up", in_prompts=True)
    async def look_up(self, call: Call, arguments: Lookup) -> Entry:
        """Does look_up."""
        return Entry(arguments.word, "é ✓")

    @tool(title="list_words")
    async def list_words(self, call: Call, arguments: Lookup) -> list[Entry]:
        """Does list_words."""
        return [Entry(arguments.word, str(i)) for i in range(arguments.count)]

    @tool(title="say")
    async def say(self, call: Call, arguments: Nothing) -> str:
        """Does say."""
        return "hello"

    @tool(title="secret", required_roles=("NOBODY",), in_prompts=True)
    async def secret(self, call: Call, arguments: Nothing) -> str:
        """Does secret."""
        return "hello"

    @tool(title="fail")
    async def fail(self, call: Call, arguments: Nothing) -> str:
        """Does fail."""
        raise Fault(ErrorCode.RATE_LIMITED, "Too many. Wait.", retry_after_ms=1500)

    @tool(title="crash")
    async def crash(self, call: Call, arguments: Nothing) -> str:
        """Does crash."""
        raise RuntimeError("secret-canary")

    @tool(title="slow", timeout_ms=20_000)
    async def slow(self, call: Call, arguments: Nothing) -> str:
        """Does slow."""
        return await self._wait()

    @tool(title="brief", timeout_ms=200)
    async def brief(self, call: Call, arguments: Nothing) -> str:
        """Does brief."""
        return await self._wait()

    async def _wait(self) -> str:
        self.started += 1
        try:
            await asyncio.sleep(15)
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        return ""

    @tool(title="steps")
    async def steps(self, call: Call, arguments: Nothing) -> str:
        """Does steps."""
        for step in range(1, 4):
            await call.progress(step, 3, f"step {step}")
        return "done"

    @prompt(title="Define")
    def define(self, word: Literal["bus", "busy"]) -> str:
        """Defines."""
        return f"Define {word}."

    @resource("dict://all", name="all")
    async def read_all(self, call: Call, request: ResourceReadRequest) -> ResourceReadReply:
        """All words."""
        return _text_resource(request.uri)

    @resource_template("dict://word/{word}", name="word")
    async def read_word(self, call: Call, request: ResourceReadRequest) -> ResourceReadReply:
        """One word."""
        if request.uri == "dict://word/none":
            raise Fault(ErrorCode.NOT_FOUND, "No such word.")
        return _text_resource(request.uri)


def _text_resource(uri: str) -> ResourceReadReply:
    body = ResourceBody(uri=uri, mime_type="text/plain", text=f"about {uri}")
    return ResourceReadReply(contents=(body,))


def dictionary_worker(dictionary: Dictionary) -> Worker:
    """The worker of the service `dictionary`."""
    worker = Worker("dictionary")
    worker.add(dictionary)
    return worker


def colliding_worker() -> Worker:
    """Another service with a tool of the same name, and one broken schema."""
    worker = Worker("atlas")
    for name, schema in (
        ("look_up", {"type": "object"}),
        ("odd", {"type": "object", "properties": {"a": {"type": "nonsense"}}}),
    ):

        async def answer(call: Call, request: ToolCall) -> ToolReply:
            return ToolReply(content=(TextContent(text="from the atlas"),))

        worker.add_tool(
            ToolDescriptor(
                name=name, toolset="atlas", description="Looks up.", input_schema=schema
            ),
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
    await buses[1].serve(dictionary_worker(dictionary))
    await buses[2].serve(colliding_worker())
    async with open_edge(buses[0], settings, default_actor=reader) as edge:
        server = await HttpServer.start(build_app(edge, Health()))
        yield Running(server.url, edge, broker, dictionary, buses)
        await edge.end_streams()
        await server.stop()


@pytest.fixture
def make_tool() -> Callable[..., ListedTool]:
    """Builds a listed tool of the toolset `office`; options are fields of its descriptor."""

    def make(name: str = "say", *, listed_as: str | None = None, **options: Any) -> ListedTool:
        options = {"toolset": "office", "description": f"Does {name}."} | options
        options.setdefault("input_schema", {"type": "object"})
        descriptor = ToolDescriptor(name=name, **options)
        return ListedTool(listed_as or name, descriptor, "office")

    return make


@pytest.fixture
async def directory(
    bus: Bus, dictionary: Dictionary, broker: MemoryBroker
) -> AsyncIterator[Directory]:
    """A directory that knows the services dictionary and atlas."""
    await broker.connect(name="dictionary").serve(dictionary_worker(dictionary))
    await broker.connect(name="atlas").serve(colliding_worker())
    directory = Directory(bus)
    await directory.start()
    yield directory
    await directory.close()


@pytest.fixture
def broker() -> MemoryBroker:
    """The in-memory twin of a NATS server."""
    return MemoryBroker()


@pytest.fixture
def bus(broker: MemoryBroker) -> Bus:
    """The edge's connection."""
    return broker.connect(name="edge")


@pytest.fixture
def dictionary() -> Dictionary:
    """The toolset of the service dictionary."""
    return Dictionary()


@pytest.fixture
def registry(directory: Directory) -> Registry:
    """The registry over both services; dictionary comes first."""
    return Registry(directory, ("dictionary",))


READER = Actor(subject="reader", roles=("READER",))


@pytest.fixture
def reader() -> Actor:
    """A caller with one role."""
    return READER


@dataclass
class Clock:
    """A clock that a test moves."""

    now_s: float = 1000.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def clock() -> Clock:
    """Seconds, from 1000."""
    return Clock()


def make_context(revision: str = "2026-07-28", capabilities: Any = None) -> Any:
    """What handlers use of the SDK's request context; `sent` collects progress and log events."""
    sent: list[Any] = []

    async def report_progress(progress: float, total: float | None, message: str | None) -> None:
        sent.append((progress, total, message))

    async def send_log_message(level: str, data: Any, logger: Any, **_: Any) -> None:
        sent.append((level, data, logger))

    session = SimpleNamespace(
        client_capabilities=capabilities,
        report_progress=report_progress,
        send_log_message=send_log_message,
    )
    return SimpleNamespace(
        session=session, protocol_version=revision, request_id=7, meta=None, request=None,
        method="tools/call", sent=sent,
    )  # fmt: skip


@pytest.fixture
def context() -> Callable[..., Any]:
    """Builds a request context by revision and capabilities."""
    return make_context
