"""How much a core and a GiB carry: CPU time of each service for each kind of call; memory of passages.

Requests a second and core = 1000 / CPU ms. The upstreams are fakes that answer at once, so that the
services' own work is what is measured. CPU time hardly minds what else the machine does.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import uuid
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import psutil

from searchbus_vectors import Point, Sparse, Vectors, open_store

HEADERS = {"Accept": "application/json, text/event-stream"}
CALLS = 400
PASSAGES = 20_000
PASSAGE_CHARS = 700
CORPUS_DOCUMENTS = 300

KINDS: dict[str, Any] = {
    "tools/list": lambda n: ("tools/list", {}),
    "tools/search": lambda n: ("tools/search", {"query": f"find me something about subject {n}"}),
    "search over documents": lambda n: _call("search", f"heat transfer in laminar flow {n}"),
    "web_search (DuckDuckGo)": lambda n: _call("web_search", f"question number {n}"),
    "web_extract_content": lambda n: (
        "tools/call",
        {
            "name": "web_extract_content",
            "arguments": {"urls": [f"http://s{n % 9}.example.org/{n}"]},
        },
    ),
}


def _call(name: str, query: str) -> tuple[str, dict[str, Any]]:
    return "tools/call", {"name": name, "arguments": {"query": query}}


async def run(reference: Path, workdir: Path) -> dict[str, Any]:
    """CPU ms a call by kind and service, resident MiB of each service, MiB of 100,000 passages."""
    found = await _memory_of_passages(workdir / "sizing-store")
    folder = Path(tempfile.mkdtemp(prefix="searchbus-sizing-"))
    stack = subprocess.Popen(
        [sys.executable, "-m", "searchbus_cli", "up", "--port", "0", "--data", folder,
         "--fake-upstreams"],
        env={**os.environ, "SEARCHBUS_DDG_INTERVAL_S": "0", "SEARCHBUS_TRACE_SAMPLE_RATIO": "0",
             "SEARCHBUS_CONNECTOR_SOURCES": '{"documents": 1.0}',
             "SEARCHBUS_SEARCH_RATE_PER_S": "0"},
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        found |= await _load(folder, reference)
    finally:
        stack.send_signal(signal.SIGTERM)
        stack.wait(150)
        shutil.rmtree(folder, ignore_errors=True)
    return found


async def _load(folder: Path, reference: Path) -> dict[str, Any]:
    give_up_s = time.monotonic() + 90
    while not (folder / "state.json").exists():
        assert time.monotonic() < give_up_s
        await asyncio.sleep(0.2)
    state = json.loads((folder / "state.json").read_text())
    fakes = json.loads((folder / "fakes.json").read_text())
    httpx.post(f"{fakes['ddg']}/_fake", json={"quick_requests": 0, "latency_s": 0.0})
    lines = (reference / "data/docs/cranfield/corpus.jsonl").read_text().splitlines()
    corpus = folder / "corpus.jsonl"
    corpus.write_text("\n".join(lines[:CORPUS_DOCUMENTS]))
    subprocess.run(
        [sys.executable, "-m", "searchbus_cli", "ingest", corpus, "--collection", "cranfield",
         "--data", folder],
        check=True, capture_output=True, timeout=300,
    )  # fmt: skip
    services = {n: psutil.Process(p) for n, p in state["processes"].items() if n != "fakes"}
    found: dict[str, Any] = {}
    async with httpx.AsyncClient(trust_env=False, timeout=60) as client:
        for kind, make in KINDS.items():
            slots = asyncio.Semaphore(8)

            async def one(number: int, make: Any = make, slots: Any = slots) -> None:
                method, params = make(number)
                body = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
                async with slots:
                    response = await client.post(f"{state['url']}/mcp", json=body, headers=HEADERS)
                assert response.status_code == 200
                assert '"isError":true' not in response.text, response.text[:500]

            await asyncio.gather(*(one(-n) for n in range(1, 21)))
            before = {name: _cpu_s(process) for name, process in services.items()}
            await asyncio.gather(*(one(n) for n in range(CALLS)))
            costs = {
                name: round(1000 * (_cpu_s(process) - before[name]) / CALLS, 2)
                for name, process in services.items()
            }
            found[f"CPU ms: {kind}"] = {n: c for n, c in costs.items() if c >= 0.05}
    found["resident MiB"] = {
        name: round(sum(p.memory_info().rss for p in _family(process)) / 2**20)
        for name, process in services.items()
    }
    return found


def _family(process: psutil.Process) -> list[psutil.Process]:
    return [process, *process.children(recursive=True)]


def _cpu_s(process: psutil.Process) -> float:
    return sum(t.user + t.system for t in (p.cpu_times() for p in _family(process)))


async def _memory_of_passages(folder: Path) -> dict[str, Any]:
    """The embedded engine's resident memory and disk for passages of 700 characters."""
    rng = np.random.default_rng(7)
    store = await open_store(folder=folder)
    await store.ensure_collection("big", {})
    process = psutil.Process()
    before = process.memory_info().rss
    words = [f"word{n}" for n in range(5000)]
    for start in range(0, PASSAGES, 500):
        vectors = rng.standard_normal((500, 384)).astype(np.float32)
        vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
        points = []
        for row in range(500):
            chosen = np.unique(rng.integers(0, 5000, 100))
            sparse = Sparse([int(n) for n in chosen], [1.0] * len(chosen))
            text = " ".join(words[n] for n in chosen)[:PASSAGE_CHARS]
            payload = {"kind": "chunk", "text": text, "title": f"Document {start + row}"}
            points.append(
                Point(str(uuid.UUID(int=start + row)), payload, Vectors(vectors[row], sparse))
            )
        await store.upsert("big", points)
    resident = process.memory_info().rss - before
    await store.close()
    disk = sum(path.stat().st_blocks * 512 for path in folder.rglob("*") if path.is_file())
    scale = 100_000 / PASSAGES / 2**20
    return {
        "MiB resident for 100,000 passages": round(resident * scale),
        "MiB of disk for 100,000 passages": round(disk * scale),
    }
