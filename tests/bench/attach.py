"""What attaching a server costs: its calls through searchbus, and without it.

All have the same bare server behind them. Every round measures all in turn, so that the machine's noise meets each
alike; differences and ratios are made within a round. Then a hundred servers with a hundred tools each are attached.
"""

from __future__ import annotations

import asyncio
import json
import random
import statistics
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import psutil

from searchbus_bus import Bus, connect
from searchbus_contracts import Actor, Fault
from searchbus_contracts.attach import StatusReply, StatusRequest
from searchbus_testing import until

from .attach_parts import TOOLS_EACH
from .edge import IN_FLIGHT, REVISIONS, TEXT, message
from .load import count_for, cpu_s, send
from .progress import progress
from .stack import START_TIMEOUT_S, nats, port_of, service
from .toolindex import question

ROUNDS = 5
LOAD_S = 1.0
SERVERS = 100
DIRECT, THROUGH, COMMAND = "without a gateway", "searchbus", "searchbus, a command"
OPERATOR = Actor(subject="bench", roles=("*",))


@dataclass
class Stack:
    """A broker, an edge and the service that attaches servers."""

    bus: Bus
    port: int
    attach_pid: int

    async def status(self) -> StatusReply:
        """The state of the servers."""
        return await self.bus.request(
            self.bus.subjects.endpoint("attach", "status"), StatusRequest(), StatusReply,
            service="attach", timeout_s=30, actor=OPERATOR,
        )  # fmt: skip


async def run(reference: Path, workdir: Path) -> dict[str, Any]:
    """Cost of the hop, and times for many servers."""
    async with bare_server() as port:
        found = await _hop(workdir / "attach-hop", port)
        return {**found, **await _many(workdir / "attach-many", port)}


@asynccontextmanager
async def bare_server() -> AsyncIterator[int]:
    """The server of attach_parts.py; its port."""
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.bench.attach_parts"], stdout=subprocess.PIPE
    )
    try:
        assert process.stdout is not None
        yield int(await asyncio.to_thread(process.stdout.readline))
    finally:
        process.terminate()
        process.wait(30)


async def _hop(folder: Path, port: int) -> dict[str, Any]:
    command = {"command": sys.executable, "args": ["-m", "tests.bench.attach_parts", "stdio"]}
    servers = {"bare": {"url": f"http://127.0.0.1:{port}/mcp"}, "command": command}
    async with _attached(folder, servers, search=False) as own:
        specs = {
            DIRECT: _spec(port, "/mcp"),
            THROUGH: _spec(own.port, "/mcp/bare"),
            COMMAND: _spec(own.port, "/mcp/command"),
        }
        counts = {
            n: await count_for({**s, "in_flight": IN_FLIGHT}, LOAD_S) for n, s in specs.items()
        }
        rounds = []
        for number in range(ROUNDS):
            progress(f"attach: round {number + 1} of {ROUNDS}")
            rounds.append({n: await _measure(s, counts[n], own) for n, s in specs.items()})
    return _summary(rounds)


async def _measure(spec: dict[str, Any], count: int, own: Stack) -> dict[str, float]:
    before_s = cpu_s([own.attach_pid])
    many = await send({**spec, "in_flight": IN_FLIGHT, "count": count})
    await asyncio.sleep(0.2)  # what threads write afterwards belongs to the requests
    attach_s = cpu_s([own.attach_pid]) - before_s
    one = await send({**spec, "in_flight": 1, "count": max(10, count * IN_FLIGHT // 8)})
    return {
        "calls/s": many["requests/s"],
        "p50 ms": one["p50_s"] * 1e3,
        "p99 ms": one["p99_s"] * 1e3,
        "attach CPU us": 1e6 * attach_s / many["requests"],
    }


def _summary(rounds: list[dict[str, dict[str, float]]]) -> dict[str, float]:
    """Medians over the rounds."""

    def median(value: Any) -> float:
        return round(statistics.median(value(r) for r in rounds), 2)

    found = {
        "p50 added ms, 1 in flight": median(lambda r: r[THROUGH]["p50 ms"] - r[DIRECT]["p50 ms"]),
        "p50 ms, 1 in flight, a command": median(lambda r: r[COMMAND]["p50 ms"]),
        "attach CPU us a call": median(lambda r: r[THROUGH]["attach CPU us"]),
        "attach CPU us a call, a command": median(lambda r: r[COMMAND]["attach CPU us"]),
    }
    for name in rounds[0]:
        found[f"calls/s {name}"] = median(lambda r, n=name: r[n]["calls/s"])
        found[f"p50 ms, 1 in flight, {name}"] = median(lambda r, n=name: r[n]["p50 ms"])
    return found


async def _many(folder: Path, port: int) -> dict[str, Any]:
    """A hundred servers: times to start, list and search."""
    servers = {
        f"app{number}": {"url": f"http://127.0.0.1:{port}/{number}/mcp"}
        for number in range(SERVERS)
    }
    size = f"{SERVERS * TOOLS_EACH:,} tools"
    started_s = time.perf_counter()
    async with _attached(folder, servers, search=True) as own:
        up_s = time.perf_counter() - started_s
        progress(f"attach: {size} are up")
        async with httpx.AsyncClient(timeout=600) as client:

            async def all_listed() -> bool:
                return await _listed(client, own.port) == SERVERS * TOOLS_EACH

            await until(all_listed, timeout_s=START_TIMEOUT_S, interval_s=1)
            ready_s = time.perf_counter() - started_s
            list_started_s = time.perf_counter()
            await _listed(client, own.port)
            list_s = time.perf_counter() - list_started_s
        headers, body = message("tools/search", REVISIONS[1])
        p50s, p99s = [], []
        for number in range(5):
            body["params"]["query"] = f"{question(random.Random(number))} 000000"
            spec = {"port": own.port, "path": "/mcp", "headers": headers, "body": body,
                    "expected": '"inputSchema"', "numbered": "000000"}  # fmt: skip
            asked = await send({**spec, "in_flight": 1, "count": 60})
            p50s.append(asked["p50_s"])
            p99s.append(asked["p99_s"])
        rss = psutil.Process(own.attach_pid).memory_info().rss / 2**20
        used_s = cpu_s([own.attach_pid])
    return {
        f"{size}: servers up after s": round(up_s, 2),
        f"{size}: listed by the edge after s": round(ready_s, 2),
        f"{size}: CPU s of the service": round(used_s, 2),
        f"{size}: tools/list of all pages s": round(list_s, 2),
        f"{size}: search p50 ms": round(1000 * statistics.median(p50s), 2),
        f"{size}: search p99 ms": round(1000 * statistics.median(p99s), 2),
        f"{size}: RSS MiB of the service": round(rss),
    }


async def _listed(client: httpx.AsyncClient, port: int) -> int:
    """Tools of all pages of tools/list."""
    count, cursor = 0, None
    while True:
        headers, body = message("tools/list", REVISIONS[1])
        if cursor is not None:
            body["params"]["cursor"] = cursor
        response = await client.post(f"http://127.0.0.1:{port}/mcp", json=body, headers=headers)
        result = response.json()["result"]
        count += sum(tool["name"].startswith("app") for tool in result["tools"])
        cursor = result.get("nextCursor")
        if cursor is None:
            return count


@asynccontextmanager
async def _attached(folder: Path, servers: dict[str, Any], *, search: bool) -> AsyncIterator[Stack]:
    """A stack whose servers are up."""
    folder.mkdir(parents=True)
    file, port_file = folder / "mcp.json", folder / "port"
    file.write_text(json.dumps({"mcpServers": servers}))
    more = {"data_dir": str(folder), "embedder": "hash"}
    async with AsyncExitStack() as stack:
        url = await stack.enter_async_context(nats(folder / "nats"))
        attach = await stack.enter_async_context(
            service("attach", url, attach_file=str(file), **more)
        )
        if search:
            await stack.enter_async_context(service("toolindex", url, **more))
        edge = await stack.enter_async_context(
            service(
                "edge", url, port="0", port_file=str(port_file), search=str(search).lower(),
                call_rate_per_s="0", search_rate_per_s="0", abuse_rate_per_s="1000000", **more,
            )
        )  # fmt: skip
        bus = await connect(url, name="bench")
        stack.push_async_callback(bus.close)
        own = Stack(bus, await port_of(edge, port_file), attach.pid)

        async def up() -> bool:
            try:
                found = (await own.status()).servers
            except Fault:
                return False
            return len(found) == len(servers) and all(s.state == "up" for s in found)

        await until(up, timeout_s=START_TIMEOUT_S, interval_s=0.1)
        yield own


def _spec(port: int, path: str) -> dict[str, Any]:
    headers, body = message("tools/call", REVISIONS[0], tool="echo")
    return {"port": port, "path": path, "headers": headers, "body": body, "expected": TEXT}
