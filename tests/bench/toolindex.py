"""The tool index: 10,000 tools from 200 workers under 32 callers."""

from __future__ import annotations

import asyncio
import random
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil

from searchbus_bus import Bus, Call, Worker, connect
from searchbus_contracts import Actor, Fault, ToolCall, ToolDescriptor, ToolReply
from searchbus_contracts.toolindex import FindReply, FindRequest

from .stack import nats, service

CALLERS = 32
SECONDS = 10.0
EVERY_ROLE = Actor(subject="bench", roles=("*",))

VERBS = (
    "get list search create update delete send fetch convert translate compare validate schedule "
    "cancel approve archive export import merge split tag rank estimate plan book track notify"
).split()
NOUNS = (
    "invoice order customer shipment flight hotel recipe song podcast video photo ticket contract "
    "employee payslip server container database table dataset chart report survey meeting reminder "
    "task note document page article paper citation patent stock fund currency loan mortgage "
    "insurance claim patient prescription appointment symptom weather forecast earthquake route map "
    "parking charger vehicle train bus ferry warehouse product review coupon refund subscription "
    "domain certificate firewall backup log alert incident repository branch commit build release"
).split()
PLACES = (
    "by city;by date;by owner;by price;by status;by country;in bulk;as PDF;as CSV;by email".split(
        ";"
    )
)


async def run(reference: Path, workdir: Path) -> dict[str, Any]:
    """Latency at the index, its start, its size, one more tool; 1,000 tools for comparison."""
    small = await _measure(workdir / "tools-1000", services=20, tools_each=50)
    large = await _measure(workdir / "tools-10000", services=200, tools_each=50)
    return {
        **{f"10,000 tools: {key}": value for key, value in large.items()},
        **{f"1,000 tools: {key}": value for key, value in small.items()},
        "growth of p50 from 1,000 to 10,000 tools": round(
            large["callers p50 ms"] / small["callers p50 ms"], 2
        ),
    }


async def _measure(folder: Path, *, services: int, tools_each: int) -> dict[str, Any]:
    dice = random.Random(7)
    async with nats(folder) as url:
        buses = [await connect(url, name=f"worker{i}") for i in range(services)]
        for number, bus in enumerate(buses):
            await bus.serve(worker(number, tools_each, dice))
        bus = await connect(url, name="callers")
        started_s = time.perf_counter()
        async with service("toolindex", url, data_dir=str(folder)) as process:
            await _answers(bus, 300)
            build_s = time.perf_counter() - started_s
            queries = [question(dice) for _ in range(20_000)]
            questions = iter(queries)
            for _ in range(200):
                await _ask(bus, next(questions))
            paced = await _load(bus, lambda: next(questions), pause_s=1.0)
            closed = await _load(bus, lambda: next(questions), pause_s=0)
            few = queries[:200]
            repeated = await _load(bus, lambda: dice.choice(few), pause_s=0)
            rss_mib = psutil.Process(process.pid).memory_info().rss / 2**20
            added_s = await _add_one(bus, buses[0], url)
        started_s = time.perf_counter()
        async with service("toolindex", url, data_dir=str(folder)):
            await _answers(bus, 300)
            again_s = time.perf_counter() - started_s
        for each in (bus, *buses):
            await each.close()
    return {
        "first start s": round(build_s, 1),
        "start with kept vectors s": round(again_s, 1),
        "RSS MiB": round(rss_mib),
        "new worker's tool found after s": round(added_s, 2),
        "callers p50 ms": paced["p50"],
        "callers p99 ms": paced["p99"],
        "callers requests/s": paced["requests/s"],
        "without pause p50 ms": closed["p50"],
        "without pause p99 ms": closed["p99"],
        "without pause requests/s": closed["requests/s"],
        "without pause, 200 queries p50 ms": repeated["p50"],
        "without pause, 200 queries p99 ms": repeated["p99"],
        "without pause, 200 queries requests/s": repeated["requests/s"],
    }


async def reply(call: Call, request: ToolCall) -> ToolReply:
    """Serve a call of any of them."""
    return ToolReply()


def worker(number: int, tools: int, dice: random.Random) -> Worker:
    """A worker whose tools' names and texts are thrown by dice."""
    toolset = f"app{number}"
    made = Worker(toolset)
    for index in range(tools):
        verb, noun, other = dice.choice(VERBS), dice.choice(NOUNS), dice.choice(NOUNS)
        place = dice.choice(PLACES)
        schema = {
            "type": "object",
            "properties": {
                f"{noun}_id": {"type": "string", "description": f"Which {noun}."},
                f"{other}_filter": {"type": "string", "description": f"Only of this {other}."},
                "limit": {"type": "integer", "description": "How many at most."},
            },
            "required": [f"{noun}_id"],
        }
        made.add_tool(
            ToolDescriptor(
                name=f"{verb}_{noun}_{index}",
                toolset=toolset,
                description=f"{verb.title()} one {noun} {place}, with its {other}, for {toolset}.",
                input_schema=schema,
            ),
            reply,
        )
    return made


def newcomer() -> Worker:
    """A worker with one tool, `measure_tide`."""
    made = Worker("newcomer")
    descriptor = ToolDescriptor(
        name="measure_tide", toolset="newcomer", description="Height of the tide.",
        input_schema={"type": "object"},
    )  # fmt: skip
    made.add_tool(descriptor, reply)
    return made


def question(dice: random.Random) -> str:
    """What one may ask of such tools."""
    return (
        f"{dice.choice(VERBS)} the {dice.choice(NOUNS)} of our {dice.choice(NOUNS)} "
        f"{dice.choice(PLACES)} {dice.randrange(10_000)}"
    )


async def _ask(bus: Bus, query: str) -> FindReply:
    return await bus.request(
        bus.subjects.endpoint("toolindex", "search"), FindRequest(query=query), FindReply,
        service="toolindex", timeout_s=30.0, actor=EVERY_ROLE,
    )  # fmt: skip


async def _load(bus: Bus, query: Callable[[], str], *, pause_s: float) -> dict[str, float]:
    """32 callers, each asking again after a pause of `pause_s` on average."""
    times_s: list[float] = []
    end_s = time.perf_counter() + SECONDS

    async def caller(number: int) -> None:
        dice = random.Random(number)
        await asyncio.sleep(dice.random() * pause_s)
        while time.perf_counter() < end_s:
            started_s = time.perf_counter()
            await _ask(bus, query())
            times_s.append(time.perf_counter() - started_s)
            await asyncio.sleep(dice.expovariate(1 / pause_s) if pause_s else 0)

    await asyncio.gather(*(caller(number) for number in range(CALLERS)))
    cuts = statistics.quantiles(times_s, n=100)
    return {
        "p50": round(statistics.median(times_s) * 1000, 2),
        "p99": round(cuts[98] * 1000, 2),
        "requests/s": round(len(times_s) / SECONDS, 1),
    }


async def _add_one(bus: Bus, other: Bus, url: str) -> float:
    started_s = time.perf_counter()
    serving = await other.serve(newcomer())
    while not any(f.name == "measure_tide" for f in (await _ask(bus, "measure_tide")).found):
        await asyncio.sleep(0.01)
    took_s = time.perf_counter() - started_s
    await serving.drain(1.0)
    return took_s


async def _answers(bus: Bus, timeout_s: float) -> None:
    async with asyncio.timeout(timeout_s):
        while True:
            try:
                await _ask(bus, "warm up")
            except Fault:
                await asyncio.sleep(0.05)
            else:
                return
