"""run_plan against call by call: tokens of fifty tasks over fake tools, and the time that it adds.

Tokens are those of the arguments that a model writes and of the results that it reads. The fake
answers have the sizes of common APIs: rows of a dozen fields, of which a task needs two or three.
"""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from msgspec import Struct

from searchbus_bus import Bus, Call, MemoryBroker, Toolset, Worker, connect, tool
from searchbus_contracts import Actor, encode
from searchbus_edge.bootstrap import Edge, open_edge
from searchbus_edge.settings import EdgeSettings
from searchbus_edge.tools.call import ToolRequest
from searchbus_passages import count

from .stack import nats

TASKS = 50
ROUNDS = 40
CALLER = Actor(subject="bench", roles=("*",))
_TEXT = "Bought by the district office after the spring inspection, and checked again in autumn. "


class Query(Struct):
    query: str


class Of(Struct):
    id: str


class Rows(Struct):
    results: list[dict[str, Any]]


class Detail(Struct):
    item: dict[str, Any]


class Upstreams(Toolset, name="fakes"):
    """Lists and details, after a pause that a bench sets."""

    pause_s = 0.0

    @tool(title="List")
    async def list_items(self, call: Call, arguments: Query) -> Rows:
        """Lists twenty items."""
        await asyncio.sleep(self.pause_s)
        return Rows([_row(arguments.query, n) for n in range(20)])

    @tool(title="Get")
    async def get_item(self, call: Call, arguments: Of) -> Detail:
        """Gives one item with its history."""
        await asyncio.sleep(self.pause_s)
        number = int(arguments.id.rpartition("-")[2])
        history = [{"at": f"2026-0{n}-14T09:30:00Z", "by": f"person{n}", "note": _TEXT}
                   for n in range(1, 6)]  # fmt: skip
        return Detail(
            {**_row("item", number), "history": history, "contact": f"c{number}@x.example"}
        )


def _row(query: str, n: int) -> dict[str, Any]:
    return {
        "id": f"{query[:8]}-{n}", "title": f"{query} number {n}", "status": ["open", "closed"][n % 2],
        "price": 5 * n, "currency": "EUR", "owner": f"owner{n % 4}", "description": _TEXT * 2,
        "url": f"https://shop.example.org/items/{query[:8]}/{n}", "created": "2026-03-01T12:00:00Z",
        "updated": "2026-11-01T12:00:00Z", "tags": ["store", "north", f"shelf{n}"], "rating": n / 4,
    }  # fmt: skip


def _tasks() -> list[dict[str, Any]]:
    """Ten of each of five kinds."""
    kinds: list[Callable[[str, int], dict[str, Any]]] = [_names, _cheap, _contacts, _joined, _two]
    words = "lamps chairs desks pumps tyres doors seeds books tools boats".split()
    return [kinds[n % 5](words[n // 5], n) for n in range(TASKS)]


def _list(name: str, query: str) -> dict[str, Any]:
    return {"id": name, "tool": "list_items", "arguments": {"query": query}}


def _names(word: str, n: int) -> dict[str, Any]:
    """The titles of a list."""
    return {"steps": [_list("a", word)], "output": {"titles": "$.a.results[*].title"}}


def _cheap(word: str, n: int) -> dict[str, Any]:
    """The open ones below a price, with two fields."""
    where = [{"path": "@.status", "value": "open"}, {"path": "@.price", "op": "lt", "value": 60}]
    rows = {"id": "b", "rows": "$.a.results", "where": where,
            "fields": {"title": "@.title", "price": "@.price"}}  # fmt: skip
    return {"steps": [_list("a", word), rows], "output": {"found": "$.b"}}


def _contacts(word: str, n: int) -> dict[str, Any]:
    """One field of the details of the first rows."""
    rows = {"id": "b", "tool": "get_item", "rows": "$.a.results", "limit": 3 + n % 5,
            "arguments": {"id": {"$path": "@.id"}}}  # fmt: skip
    return {
        "steps": [_list("a", word), rows],
        "output": {"contacts": "$.b[*].result.item.contact"},
    }


def _joined(word: str, n: int) -> dict[str, Any]:
    """Pairs of two lists with the same owner."""
    join = {"rows": "$.b.results[0:2]", "on": "@.owner", "equals": "@.owner", "name": "other"}
    rows = {"id": "c", "rows": "$.a.results", "join": join, "limit": 5,
            "fields": {"one": "@.id", "two": "@.other.id"}}  # fmt: skip
    return {
        "steps": [_list("a", word), _list("b", f"old {word}"), rows],
        "output": {"pairs": "$.c"},
    }


def _two(word: str, n: int) -> dict[str, Any]:
    """The last note of each open one's details."""
    rows = {"id": "b", "tool": "get_item", "rows": "$.a.results", "limit": 4,
            "where": [{"path": "@.status", "value": "open"}],
            "arguments": {"id": {"$path": "@.id"}}}  # fmt: skip
    return {
        "steps": [_list("a", word), rows],
        "output": {"by": "$.b[*].result.item.history[-1].by", "ids": "$.b[*].row.id"},
    }


@asynccontextmanager
async def edge_of(bus: Bus, workers: Bus, upstreams: Upstreams) -> AsyncIterator[Edge]:
    """An edge whose upstreams are these."""
    worker = Worker("fakes", max_in_flight=64)
    worker.add(upstreams)
    await workers.serve(worker)
    async with open_edge(bus, EdgeSettings()) as edge:
        await bus.serve(edge.connector)
        await edge.directory.refresh()
        yield edge


async def _call(edge: Edge, name: str, arguments: dict[str, Any]) -> Any:
    calls = edge.http_calls._calls
    target = calls.resolver.target(edge.registry.view(None), name, arguments)
    reply = (await calls.call(ToolRequest(CALLER, target, arguments))).reply
    assert not reply.is_error, reply
    return reply.value


async def measure_tokens() -> dict[str, Any]:
    """Tokens of all tasks, call by call and as plans."""
    broker, upstreams = MemoryBroker(), Upstreams()
    single = planned = 0

    bus = broker.connect(name="edge")
    async with edge_of(bus, broker.connect(name="fakes"), upstreams) as edge:
        inner = edge.http_calls._calls.call

        async def call(request: ToolRequest) -> Any:
            """Each call of a plan is what an agent would have called and read."""
            nonlocal single
            served = await inner(request)
            if request.for_composite:
                text = (served.reply.structured or b"").decode()
                single += count(encode(request.arguments).decode()) + count(text)
            return served

        edge.http_calls._calls.call = call  # type: ignore[method-assign]
        for task in _tasks():
            answer = await _call(edge, "run_plan", task)
            assert answer["output"] and "failures" not in answer, answer
            planned += count(encode(task).decode()) + count(encode(answer).decode())
    return {
        "tasks": TASKS, "tokens call by call": single, "tokens of plans": planned,
        "saved share of tokens": 1 - planned / single,
    }  # fmt: skip


async def _measure_time(folder: Path) -> dict[str, Any]:
    """p50 of a plan of two levels against its slowest path alone, call by call, in turn."""
    upstreams = Upstreams()
    upstreams.pause_s = 0.05
    plan = _contacts("lamps", 2)
    plan["steps"].append(_list("other", "chairs"))
    times: dict[str, list[float]] = {"plan": [], "path": []}
    async with nats(folder) as url:
        bus, workers = await connect(url, name="edge"), await connect(url, name="fakes")
        async with edge_of(bus, workers, upstreams) as edge:
            for number in range(ROUNDS):
                for way in ("plan", "path") if number % 2 else ("path", "plan"):
                    started_s = time.perf_counter()
                    if way == "plan":
                        await _call(edge, "run_plan", plan)
                    else:
                        found = await _call(edge, "list_items", {"query": "lamps"})
                        await _call(edge, "get_item", {"id": found["results"][0]["id"]})
                    times[way].append(1000 * (time.perf_counter() - started_s))
        await workers.close()
        await bus.close()
    plan_ms, path_ms = (statistics.median(times[way]) for way in ("plan", "path"))
    return {"plan p50 ms": plan_ms, "slowest path p50 ms": path_ms, "added ms": plan_ms - path_ms}


async def run(reference: Path, workdir: Path) -> dict[str, Any]:
    """Both measurements."""
    return {**await measure_tokens(), **await _measure_time(workdir / "plans")}
