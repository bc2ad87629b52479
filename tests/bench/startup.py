"""How long `searchbus up` takes until the stack is ready, and what that costs.

Ready: the state file is there (every service has a worker), and a tools/search and a
search_fomc have been answered, which need the model in both of its services. The unit is a process
that only imports the largest packages of the stack; both are measured in turn.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import httpx
import psutil

ROUNDS = 3
POLL_S = 0.02
TIMEOUT_S = 600.0
UNIT = "import fastapi, mcp, onnxruntime"
HEADERS = {"Accept": "application/json, text/event-stream"}
SEARCH_TOOLS = ("tools/search", {"query": "views on inflation"})
SEARCH_DOCUMENTS = ("tools/call", {"name": "search_fomc", "arguments": {"query": "inflation"}})
DOCUMENTS = "".join(
    json.dumps({"id": f"d{n}", "text": f"Statement {n}: the Committee left rates unchanged."})
    + "\n"
    for n in range(50)
)


async def run(reference: Path, workdir: Path) -> dict[str, Any]:
    """Wall time and CPU time until ready, in units, on a new data folder and on a used one."""
    used = workdir / "startup-used"
    documents = workdir / "startup.jsonl"
    documents.write_text(DOCUMENTS)
    await _start(used, ingest=documents)
    found: dict[str, list[float]] = {}
    for number in range(ROUNDS):
        unit_wall_s, unit_cpu_s = _unit()
        for name, folder in (("new", workdir / f"startup-{number}"), ("used", used)):
            wall_s, cpu_s = await _start(folder)
            found.setdefault(f"{name} folder: wall / imports", []).append(wall_s / unit_wall_s)
            found.setdefault(f"{name} folder: CPU / imports", []).append(cpu_s / unit_cpu_s)
    return {name: round(statistics.median(values), 2) for name, values in found.items()}


def _unit() -> tuple[float, float]:
    """Wall and CPU seconds of the process that only imports."""
    before, started_s = os.times(), time.perf_counter()
    subprocess.run([sys.executable, "-c", UNIT], check=True)
    after = os.times()
    cpu_s = after.children_user + after.children_system
    cpu_s -= before.children_user + before.children_system
    return time.perf_counter() - started_s, cpu_s


async def _start(folder: Path, *, ingest: Path | None = None) -> tuple[float, float]:
    """Start a stack and stop it; wall and CPU seconds of all its processes until ready."""
    started_s = time.perf_counter()
    stack = subprocess.Popen(
        [sys.executable, "-m", "searchbus_cli", "up", "--port", "0", "--data", folder],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        async with asyncio.timeout(TIMEOUT_S):
            while not (folder / "state.json").exists():
                if stack.poll() is not None:
                    raise RuntimeError(f"searchbus up ended with code {stack.returncode}")
                await asyncio.sleep(POLL_S)
            url = json.loads((folder / "state.json").read_text())["url"]
            await _answers(url)
        wall_s, cpu_s = time.perf_counter() - started_s, _cpu_s(stack.pid)
        if ingest is not None:
            subprocess.run(
                [sys.executable, "-m", "searchbus_cli", "ingest", ingest, "--collection", "fomc",
                 "--data", folder],
                check=True, capture_output=True,
            )  # fmt: skip
        return wall_s, cpu_s
    finally:
        stack.send_signal(signal.SIGTERM)
        stack.wait(TIMEOUT_S)


async def _answers(url: str) -> None:
    async with httpx.AsyncClient(base_url=url, timeout=TIMEOUT_S) as client:
        (await client.get("/readyz")).raise_for_status()
        for method, params in (SEARCH_TOOLS, SEARCH_DOCUMENTS):
            message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
            while True:
                reply = (await client.post("/mcp", json=message, headers=HEADERS)).json()
                result = reply.get("result", {})
                # An empty corpus is an answer of the service; a service that is absent is none.
                if result.get("tools") or (
                    result.get("content") and "unavailable" not in str(result)
                ):
                    break
                await asyncio.sleep(POLL_S)


def _cpu_s(pid: int) -> float:
    """Of a process, its descendants, and those of them that have ended."""
    top = psutil.Process(pid)
    return sum(sum(p.cpu_times()[:4]) for p in [top, *top.children(recursive=True)])
