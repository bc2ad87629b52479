"""A shop as fake upstream tools, and run_plan over them by the edge's pipeline."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import Annotated, Any

import pytest
from msgspec import Meta, Struct, convert

from searchbus_bus import Call, MemoryBroker, Toolset, Worker, tool
from searchbus_contracts import Actor, ErrorCode, Fault, ToolReply
from searchbus_edge.bootstrap import Edge, open_edge
from searchbus_edge.settings import EdgeSettings
from searchbus_edge.tools.call import ToolRequest
from searchbus_testing import known


class Wanted(Struct, forbid_unknown_fields=True):
    text: Annotated[str, Meta(min_length=1, max_length=100)]
    count: Annotated[int, Meta(ge=1, le=500)] = 5


class One(Struct, forbid_unknown_fields=True):
    id: Annotated[str, Meta(max_length=200)]


class Anything(Struct):
    value: Any = None


class Products(Struct):
    results: list[dict[str, Any]]


class Got(Struct):
    value: Any


class Shop(Toolset, name="shop"):
    """Finds products, gives the price of one; and what goes wrong."""

    def __init__(self) -> None:
        self.called: list[tuple[str, Any]] = []
        self.running = self.most_running = self.cancelled = 0
        self.pause_s = 0.0

    @tool(title="Find products")
    async def find(self, call: Call, arguments: Wanted) -> Products:
        """Finds products."""
        self.called.append(("find", arguments.text))
        await self._pause()
        return Products(
            [{"id": f"p{n}", "title": f"{arguments.text} {n}", "score": n, "long": "x" * 400}
             for n in range(arguments.count)]
        )  # fmt: skip

    @tool(title="Price of a product")
    async def price(self, call: Call, arguments: One) -> Got:
        """Gives a price."""
        self.called.append(("price", arguments.id))
        await self._pause()
        if arguments.id == "p3":
            raise Fault(ErrorCode.NOT_FOUND, "No such product.")
        return Got({"id": arguments.id, "euro": 10 * int(arguments.id[1:])})

    @tool(title="Echo")
    async def echo(self, call: Call, arguments: Anything) -> Got:
        """Gives back what it gets."""
        self.called.append(("echo", None))
        return Got(arguments.value)

    @tool(title="Wait")
    async def wait(self, call: Call, arguments: Anything) -> Got:
        """Takes long."""
        self.called.append(("wait", arguments.value))
        self.running += 1
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        finally:
            self.running -= 1
        return Got(None)

    @tool(title="Secret", required_roles=("NOBODY",))
    async def secret(self, call: Call, arguments: One) -> Got:
        """Hidden."""
        self.called.append(("secret", arguments.id))
        return Got("canary")

    @tool(title="Text")
    async def as_text(self, call: Call, arguments: Anything) -> str:
        """Gives a text."""
        return str(arguments.value)

    async def _pause(self) -> None:
        self.running += 1
        self.most_running = max(self.most_running, self.running)
        await asyncio.sleep(self.pause_s)
        self.running -= 1


@dataclass
class Bench:
    """An edge with the shop."""

    edge: Edge
    shop: Shop
    actor: Actor = field(default_factory=lambda: Actor(subject="reader", roles=("READER",)))

    async def run(
        self, *steps: dict[str, Any], output: dict[str, str], tool: str = "run_plan", **options: Any
    ) -> ToolReply:
        """The reply of run_plan."""
        arguments = {"steps": list(steps), "output": output, **options}
        return await self.call(tool, arguments)

    async def call(
        self, name: str, arguments: dict[str, Any], on_event: Callable[..., None] | None = None
    ) -> ToolReply:
        """A call by the pipeline of all calls."""
        calls = self.edge.http_calls._calls
        view = self.edge.registry.view(None)
        target = calls.resolver.target(view, name, arguments)
        request = ToolRequest(self.actor, target, arguments, on_event=on_event)
        return (await calls.call(request)).reply.decoded()


@pytest.fixture
async def bench(request: pytest.FixtureRequest) -> AsyncIterator[Bench]:
    """The edge's settings by indirect parameter."""
    broker, shop = MemoryBroker(), Shop()
    worker = Worker("shop", max_in_flight=64)
    worker.add(shop)
    await broker.connect(name="shop").serve(worker)
    settings = convert(getattr(request, "param", {}), dict[str, Any])
    async with open_edge(broker.connect(name="edge"), EdgeSettings(**settings)) as edge:
        await edge.bus.serve(edge.connector)
        await known(edge.directory, "shop", "connector")
        yield Bench(edge, shop)
