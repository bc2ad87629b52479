"""Nothing is kept of workers that came and went: every container has the size that it had before."""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from searchbus_bus import Bus, Call, Hedge, Request, Toolset, Worker, endpoint, tool
from searchbus_contracts import Fault
from searchbus_edge.bootstrap import open_edge
from searchbus_edge.settings import EdgeSettings

from .world import World, simulate

_CONTAINERS = (list, set, frozenset, tuple, deque, Mapping)
_LEFT_OUT = ("searchbus_bus.memory", "searchbus_bus.store.keyvalue")
"""The broker and its buckets: they stand for the server."""
_REFILLED = ("RandomIds._pool",)
"""Made in advance, a fixed number at a time."""


def sizes(root: object) -> Counter[str]:
    """Number of elements of all containers that an object reaches, by the attribute that holds them.

    Follows attributes of searchbus' own objects, and containers.
    """
    found: Counter[str] = Counter()
    seen: set[int] = set()
    waiting: list[tuple[str, Any]] = [("", root)]
    while waiting:
        name, thing = waiting.pop()
        if id(thing) in seen:
            continue
        seen.add(id(thing))
        module = type(thing).__module__
        if isinstance(thing, _CONTAINERS):
            found[name] += len(thing)
            elements: Iterable[Any] = (
                (*thing.keys(), *thing.values()) if isinstance(thing, Mapping) else thing
            )
            waiting += [(name, element) for element in elements]
        elif module.startswith("searchbus") and not module.startswith(_LEFT_OUT):
            waiting += [
                (f"{type(thing).__qualname__}.{key}", value)
                for key, value in _attributes(thing).items()
            ]
    return Counter({name: size for name, size in found.items() if name not in _REFILLED})


def _attributes(thing: object) -> dict[str, Any]:
    slots = [name for kind in type(thing).__mro__ for name in getattr(kind, "__slots__", ())]
    return {
        **{name: getattr(thing, name) for name in slots if hasattr(thing, name)},
        **getattr(thing, "__dict__", {}),
    }


class Text(msgspec.Struct):
    """A request and its reply."""

    text: str


class Echo(Toolset, name="echo"):
    """Answers, or hangs."""

    def __init__(self, *, hangs: bool) -> None:
        self._hangs = hangs

    @endpoint
    async def say(self, call: Call, request: Text) -> Text:
        """The text."""
        if self._hangs:
            await asyncio.Event().wait()
        return request

    @tool(title="Say")
    async def say_it(self, call: Call, arguments: Text) -> str:
        """The text."""
        return arguments.text


def _toolset(name: str) -> Toolset:
    class Once(Toolset, name=name):
        """A toolset that is never seen again."""

        @tool(title="Say")
        async def say_it(self, call: Call, arguments: Text) -> str:
            """The text."""
            return arguments.text

    return Once()


async def start(broker: Any, service: str, *tools: Any) -> tuple[Bus, Any]:
    bus = broker.connect()
    worker = Worker(service)
    for tool_or_endpoint in tools:
        worker.add(tool_or_endpoint)
    return bus, await bus.serve(worker)


async def restarts(world: World, folder: Any, rounds: tuple[int, ...]) -> list[Counter[str]]:
    """What an edge keeps after each number of rounds.

    In a round three workers of one service start, one of which hangs, and one of a service that is
    never seen again; calls are sent, some hedged; then the workers crash or stop.
    """
    broker = world.broker()
    caller = broker.connect()
    hedge = Hedge()
    found = []
    async with open_edge(caller, EdgeSettings(_env_file=None, data_dir=folder)) as edge:
        edge.directory._presence._clock_s = world.loop.time  # its own default is the real clock

        async def call(number: int) -> None:
            await asyncio.sleep(world.chance.random())
            ask = Request(
                caller.subjects.endpoint("echo", "say"), Text(str(number)), Text, service="echo",
                timeout_s=2.0, idempotent=True,
            )  # fmt: skip
            try:
                await (caller.send_hedged(ask, hedge) if number % 2 else caller.send(ask))
            except Fault:
                pass

        for number in range(1, max(rounds) + 1):
            workers = [await start(broker, "echo", Echo(hangs=n == 0)) for n in range(3)]
            once = await start(broker, f"once{number}", _toolset(f"once{number}"))
            await edge.directory.refresh()
            assert edge.registry.view(f"once{number}").tools
            assert edge.registry.view(None).tools
            await asyncio.gather(*(call(n) for n in range(60)))
            for place, (bus, serving) in enumerate(workers):
                if (place + number) % 2:
                    bus.transport.sever()
                else:
                    await serving.drain(1.0)
                await bus.close()
            await once[1].drain(1.0)
            await once[0].close()
            if number in rounds:
                await asyncio.sleep(60)
                await edge.directory.refresh()
                assert edge.registry.view(None)
                found.append(sizes(edge))
    return found


def test_an_edge_keeps_nothing_of_workers_that_came_and_went(tmp_path):
    """Twenty rounds of them leave as much as five."""
    early, late = simulate(lambda world: restarts(world, tmp_path, (5, 20)), seed=3)
    assert early["Presence._services"] > 0
    assert {name: late[name] - early[name] for name in late if late[name] > early[name]} == {}
