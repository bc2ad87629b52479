"""What the edge costs: CPU of one request, in multiples of a raw ASGI answer under httptools.

The edge has a signed-in caller (a static key) and tracing on. Every round measures all of them in
turn, so that the machine's noise meets each alike; a ratio is the median over the rounds.
"""

from __future__ import annotations

import asyncio
import os
import statistics
import subprocess
import sys
from collections.abc import AsyncIterator, Iterable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from searchbus_edge.auth.static_keys import KeyFile
from searchbus_testing import NatsServer, until

from .load import cpu_s, send
from .stack import log_of, port_of

ROUNDS = 5
REQUESTS = 2000
IN_FLIGHT = 16
HOT = {"in_flight": IN_FLIGHT, "count": REQUESTS // IN_FLIGHT}
PACED = {"in_flight": 1, "every_s": 0.02, "count": 500}
"""What an edge sees most of the day: 50 calls a second for ten seconds."""
REVISIONS = ("2025-11-25", "2026-07-28")
TEXT = "hello over the bus"


@dataclass
class Parts:
    """What runs: process ids, ports, the key of the caller."""

    nats_url: str
    nats_pid: int
    raw_pid: int
    raw_port: int
    chain_pid: int
    chain_port: int
    worker_pid: int
    edge_pids: tuple[int, ...]
    edge_port: int
    key: str

    def request(self, method: str, revision: str) -> dict[str, Any]:
        """One request to the edge, for the load."""
        authorization = {"Authorization": f"Bearer {self.key}"}
        call = method == "tools/call"
        headers, body = message(method, revision, tool="echo" if call else None)
        return {"port": self.edge_port, "path": "/mcp", "headers": headers | authorization,
                "body": body, "expected": TEXT if call else '"tools"'}  # fmt: skip

    def plain(self) -> dict[str, Any]:
        """The same call by plain HTTP."""
        headers = {"Accept": "*/*", "Content-Type": "application/json",
                   "Authorization": f"Bearer {self.key}"}  # fmt: skip
        return {"port": self.edge_port, "path": "/api/v1/tools/echo", "headers": headers,
                "body": {"text": TEXT}, "expected": TEXT}  # fmt: skip

    def raw(self) -> dict[str, Any]:
        """The same call to the raw application."""
        return {**self.request("tools/call", REVISIONS[0]), "port": self.raw_port}

    def chain(self) -> dict[str, Any]:
        """The same call by way of NATS, without searchbus."""
        return {**self.raw(), "port": self.chain_port}


def message(
    method: str, revision: str, *, tool: str | None = None
) -> tuple[dict[str, str], dict[str, Any]]:
    """Headers and body of a request; with `tool`, of a call of it with the argument `text`."""
    headers = {
        "Accept": "application/json, text/event-stream",
        "Content-Type": "application/json",
        "MCP-Protocol-Version": revision,
    }
    params: dict[str, Any] = {"name": tool, "arguments": {"text": TEXT}} if tool else {}
    if revision >= "2026":
        headers |= {"Mcp-Method": method, **({"Mcp-Name": tool} if tool else {})}
        params["_meta"] = {
            "io.modelcontextprotocol/protocolVersion": revision,
            "io.modelcontextprotocol/clientInfo": {"name": "bench", "version": "1"},
            "io.modelcontextprotocol/clientCapabilities": {},
        }
    return headers, {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}


async def run(reference: Path, workdir: Path) -> dict[str, Any]:
    """Ratios, with the raw measurements behind them."""
    async with running_parts(workdir / "edge") as parts:
        calls = {r: parts.request("tools/call", r) for r in REVISIONS}
        lists = {r: parts.request("tools/list", r) for r in REVISIONS}
        ratios: dict[str, list[float]] = {}
        rates: dict[str, list[float]] = {}
        for number in range(ROUNDS + 1):
            raw_s, rate = await cost(parts.raw(), [parts.raw_pid])
            found = {"raw requests/s": rate}
            measured: dict[str, float] = {}
            for revision in REVISIONS:
                worker_s = cpu_s([parts.worker_pid])
                call_s, rate = await cost(calls[revision], parts.edge_pids)
                found[f"calls/s {revision}"] = rate
                measured[f"tools/call {revision}"] = call_s / raw_s
                worker_s = (cpu_s([parts.worker_pid]) - worker_s) / REQUESTS
                measured[f"worker {revision}"] = worker_s / raw_s
                list_s, _ = await cost(lists[revision], parts.edge_pids)
                measured[f"tools/list {revision}"] = list_s / raw_s
            plain_s, found["calls/s /api/v1"] = await cost(parts.plain(), parts.edge_pids)
            measured["/api/v1"] = plain_s / raw_s
            raw_paced_s, _ = await cost(parts.raw(), [parts.raw_pid], PACED)
            bare = [parts.chain_pid, parts.raw_pid, parts.nats_pid]
            chain_s, _ = await cost(parts.chain(), bare, PACED)
            measured["50 calls/s, without searchbus"] = chain_s / raw_paced_s
            every = [*parts.edge_pids, parts.worker_pid, parts.nats_pid]
            for revision in REVISIONS:
                paced_s, _ = await cost(calls[revision], every, PACED)
                measured[f"50 calls/s, all processes {revision}"] = paced_s / raw_paced_s
            found["raw CPU us"] = raw_s * 1e6
            if number:  # the first round warms up
                for name, value in measured.items():
                    ratios.setdefault(name, []).append(value)
                for name, value in found.items():
                    rates.setdefault(name, []).append(value)
        latency = await _latency(parts, calls[REVISIONS[1]])
    return {
        **{name: round(statistics.median(values), 2) for name, values in ratios.items()},
        **{name: round(statistics.median(values)) for name, values in rates.items()},
        **latency,
    }


async def _latency(parts: Parts, call: dict[str, Any]) -> dict[str, Any]:
    """p50 at one in flight beside the sum of a raw answer's and a raw NATS request's."""
    ratios, p50s = [], []
    for _ in range(ROUNDS):
        one = {"in_flight": 1, "count": REQUESTS // 4}
        raw = await send({**parts.raw(), **one})
        bus = await send({"nats_url": parts.nats_url, **one})
        edge = await send({**call, **one})
        ratios.append(edge["p50_s"] / (raw["p50_s"] + bus["p50_s"]))
        p50s.append((raw["p50_s"], bus["p50_s"], edge["p50_s"]))
    names = ("raw", "NATS", "edge")
    return {
        "p50 / (raw p50 + NATS p50)": round(statistics.median(ratios), 2),
        **{
            f"p50 ms {name}": round(1000 * statistics.median(p[i] for p in p50s), 2)
            for i, name in enumerate(names)
        },
    }


async def cost(
    spec: dict[str, Any], pids: Iterable[int], load: dict[str, Any] = HOT
) -> tuple[float, float]:
    """CPU seconds of processes per request, and requests a second."""
    before_s = cpu_s(pids)
    found = await send({**spec, **load})
    await asyncio.sleep(0.3)  # what threads export and write afterwards belongs to the requests
    return (cpu_s(pids) - before_s) / found["requests"], found["requests/s"]


@asynccontextmanager
async def running_parts(folder: Path, **more: object) -> AsyncIterator[Parts]:
    """NATS, the raw servers, a worker and an edge, each a process.

    Args:
        more: further settings of all.
    """
    (folder / "nats").mkdir(parents=True)
    key, _ = KeyFile(folder / "keys.json").add("bench", ("READER",))
    async with AsyncExitStack() as stack:
        nats = NatsServer(folder / "nats", arguments=("-js", "-sd", str(folder / "nats")))
        nats.start()
        stack.callback(nats.stop)
        settings = {
            "nats_url": nats.url, "data_dir": folder, "auth": "static", "keys_file": folder / "keys.json", "search": "false",
            "call_rate_per_s": 0, "abuse_rate_per_s": 1_000_000,
            **more,
        }  # fmt: skip

        def start(*arguments: str, log: Path, **more: object) -> subprocess.Popen[bytes]:
            added = {f"SEARCHBUS_{k.upper()}": str(v) for k, v in {**settings, **more}.items()}
            with log.open("wb") as errors:
                process = subprocess.Popen(
                    [sys.executable, "-m", *arguments],
                    env={**os.environ, **added}, stdout=subprocess.PIPE, stderr=errors,
                )  # fmt: skip
            stack.callback(process.wait, 30)
            stack.callback(process.terminate)
            return process

        raw = start("tests.bench.edge_parts", "raw", nats.url, log=folder / "raw.log")
        assert raw.stdout is not None
        raw_port = int(await asyncio.to_thread(raw.stdout.readline))
        chain = start("tests.bench.edge_parts", "chain", nats.url, log=folder / "chain.log")
        assert chain.stdout is not None
        chain_port = int(await asyncio.to_thread(chain.stdout.readline))
        worker = start("tests.bench.edge_parts", "worker", log=folder / "worker.log")
        port_file = folder / "port"
        edge = start(
            "searchbus_runtime", "edge", log=log_of(port_file), port=0, port_file=port_file
        )
        port = await port_of(edge, port_file)
        assert nats.process is not None
        parts = Parts(
            nats.url, nats.process.pid, raw.pid, raw_port, chain.pid, chain_port, worker.pid,
            (edge.pid,), port, key,
        )  # fmt: skip
        await until(lambda: _answers(parts), timeout_s=600)
        yield parts


async def _answers(parts: Parts) -> bool:
    spec = parts.request("tools/call", REVISIONS[0])
    async with httpx.AsyncClient(timeout=60) as client:
        try:
            response = await client.post(
                f"http://127.0.0.1:{parts.edge_port}/mcp",
                json=spec["body"], headers=spec["headers"],
            )  # fmt: skip
        except httpx.HTTPError:
            return False
    return TEXT in response.text
