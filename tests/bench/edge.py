"""What the edge costs: CPU of one request, in multiples of a raw ASGI answer under httptools.

The edge has a signed-in caller (a static key) and tracing on. Every round measures all of them in
turn, so that the machine's noise meets each alike; a ratio is the median over the rounds. The load
comes from a process of its own.
"""

from __future__ import annotations

import asyncio
import json
import os
import statistics
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from searchbus_edge.auth.static_keys import KeyFile
from searchbus_testing import until

from .stack import nats

__all__ = ["run"]

ROUNDS = 5
REQUESTS = 2000
IN_FLIGHT = 16
REVISIONS = ("2025-11-25", "2026-07-28")
TEXT = "hello over the bus"


@dataclass
class Parts:
    """What runs: process ids, ports, the key of the caller."""

    nats_url: str
    raw_pid: int
    raw_port: int
    worker_pid: int
    edge_pid: int
    edge_port: int
    key: str

    def request(self, method: str, revision: str) -> dict[str, Any]:
        """One request to the edge, for the load."""
        params: dict[str, Any] = {}
        headers = {
            "Accept": "application/json, text/event-stream",
            "Content-Type": "application/json",
            "Authorization": f"Bearer {self.key}",
            "MCP-Protocol-Version": revision,
        }
        if method == "tools/call":
            params = {"name": "echo", "arguments": {"text": TEXT}}
        if revision >= "2026":
            headers["Mcp-Method"] = method
            params["_meta"] = {
                "io.modelcontextprotocol/protocolVersion": revision,
                "io.modelcontextprotocol/clientInfo": {"name": "bench", "version": "1"},
                "io.modelcontextprotocol/clientCapabilities": {},
            }
            if method == "tools/call":
                headers["Mcp-Name"] = "echo"
        body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        return {"port": self.edge_port, "path": "/mcp", "headers": headers, "body": body,
                "expected": TEXT if method == "tools/call" else '"tools"'}  # fmt: skip

    def raw(self) -> dict[str, Any]:
        """The same call to the raw application."""
        return {**self.request("tools/call", REVISIONS[0]), "port": self.raw_port}


async def run(reference: Path, workdir: Path) -> dict[str, Any]:
    """Ratios, with the raw measurements behind them."""
    async with _parts(workdir / "edge") as parts:
        calls = {r: parts.request("tools/call", r) for r in REVISIONS}
        lists = {r: parts.request("tools/list", r) for r in REVISIONS}
        ratios: dict[str, list[float]] = {}
        rates: dict[str, list[float]] = {}
        for number in range(ROUNDS + 1):
            raw_s, rate = await _cpu_s(parts.raw(), parts.raw_pid)
            found = {"raw requests/s": rate}
            measured: dict[str, float] = {}
            for revision in REVISIONS:
                worker_s = _cpu_of(parts.worker_pid)
                call_s, found[f"calls/s {revision}"] = await _cpu_s(calls[revision], parts.edge_pid)
                measured[f"tools/call {revision}"] = call_s / raw_s
                worker_s = (_cpu_of(parts.worker_pid) - worker_s) / REQUESTS
                measured[f"worker {revision}"] = worker_s / raw_s
                list_s, _ = await _cpu_s(lists[revision], parts.edge_pid)
                measured[f"tools/list {revision}"] = list_s / raw_s
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
        raw = await _load({**parts.raw(), **one})
        bus = await _load({"url": parts.nats_url, "count": REQUESTS // 4}, part="nats-load")
        edge = await _load({**call, **one})
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


async def _cpu_s(spec: dict[str, Any], pid: int) -> tuple[float, float]:
    """CPU seconds of a process per request, and requests a second."""
    before_s = _cpu_of(pid)
    found = await _load({**spec, "in_flight": IN_FLIGHT, "count": REQUESTS // IN_FLIGHT})
    await asyncio.sleep(0.3)  # what threads export and write afterwards belongs to the requests
    return (_cpu_of(pid) - before_s) / found["requests"], found["requests/s"]


async def _load(spec: dict[str, Any], part: str = "load") -> dict[str, Any]:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tests.bench.edge_parts", part, json.dumps(spec),
        stdout=subprocess.PIPE,
    )  # fmt: skip
    out, _ = await process.communicate()
    if process.returncode:
        raise RuntimeError(f"the load failed: {spec}")
    found: dict[str, Any] = json.loads(out)
    return found


def _cpu_of(pid: int) -> float:
    """CPU seconds of a process so far, of all its threads; finer than the ticks of `stat`."""
    tasks = Path(f"/proc/{pid}/task").glob("*/schedstat")
    return sum(int(task.read_text().split()[0]) for task in tasks) / 1e9


@asynccontextmanager
async def _parts(folder: Path) -> AsyncIterator[Parts]:
    folder.mkdir(parents=True)
    key, _ = KeyFile(folder / "keys.json").add("bench", ("READER",))
    async with AsyncExitStack() as stack:
        url = await stack.enter_async_context(nats(folder / "nats"))
        settings = {
            "nats_url": url, "data_dir": folder, "trace_file": folder / "traces.jsonl", "port": 0,
            "auth": "static", "keys_file": folder / "keys.json", "port_file": folder / "port",
            "call_rate_per_s": 0, "abuse_rate_per_s": 1_000_000, "search": "false",
        }  # fmt: skip
        environment = {
            **os.environ,
            **{f"SEARCHBUS_{k.upper()}": str(v) for k, v in settings.items()},
        }
        log = stack.enter_context((folder / "log").open("wb"))

        def start(*arguments: str, **options: Any) -> subprocess.Popen[bytes]:
            command = [sys.executable, "-m", *arguments]
            process = subprocess.Popen(command, env=environment, stderr=log, **options)
            stack.callback(process.wait, 30)
            stack.callback(process.terminate)
            return process

        raw = start("tests.bench.edge_parts", "raw", url, stdout=subprocess.PIPE)
        assert raw.stdout is not None
        raw_port = int(await asyncio.to_thread(raw.stdout.readline))
        worker = start("tests.bench.edge_parts", "worker")
        edge = start("searchbus_edge")

        async def ready() -> str | None:
            try:
                port = (folder / "port").read_text().strip()
                parts = Parts(url, raw.pid, raw_port, worker.pid, edge.pid, int(port), key)
                spec = parts.request("tools/call", REVISIONS[0])
                response = httpx.post(
                    f"http://127.0.0.1:{port}/mcp", json=spec["body"], headers=spec["headers"]
                )
                return port if TEXT in response.text else None
            except (OSError, ValueError, httpx.HTTPError):
                return None

        port = int(await until(ready, timeout_s=600) or 0)
        yield Parts(url, raw.pid, raw_port, worker.pid, edge.pid, port, key)
