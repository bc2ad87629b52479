"""tools/search through the whole path, client → edge → NATS → tool index → edge, at three sizes.

Each size has its own broker, edge (a signed-in caller, tracing on) and index, each a process. They are
measured in turn, so that the machine's noise meets all alike. For latency every request asks something
new; for the edge's CPU all ask the same, which the index has ranked: what remains is the edge's own. The
vectors of the tools are made of those of their words: the model would take minutes for 50,000.
"""

from __future__ import annotations

import json
import random
import re
import statistics
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import psutil

from searchbus_bus import Bus, Worker, connect
from searchbus_contracts import Catalog, canonical, decode
from searchbus_edge.auth.static_keys import KeyFile
from searchbus_testing import until
from searchbus_toolindex.embedding import load_tool_embedder
from searchbus_toolindex.entries import descriptors_of, entry_of
from searchbus_toolindex.settings import ToolindexSettings
from searchbus_toolindex.vector_file import VectorFile, text_key
from searchbus_vectors import Vector

from .edge import IN_FLIGHT, REVISIONS, cost, message
from .load import cpu_s, send
from .progress import progress
from .stack import nats, port_of, raw_server, service
from .toolindex import NOUNS, PLACES, VERBS, newcomer, question, worker

SIZES = (1_000, 10_000, 50_000)
TOOLS_EACH = 250
ROUNDS = 9
QUESTIONS = 3
LOAD = {"in_flight": IN_FLIGHT, "count": 150}
ONE_BY_ONE = {"in_flight": 1, "count": 30, "numbered": "000000"}


@dataclass
class Route:
    """One size: its processes, and where its edge listens."""

    bus: Bus
    edge_pid: int
    index_pid: int
    port: int
    key: str

    def request(self, revision: str, query: str) -> dict[str, Any]:
        """A search for the load; its zeros can be numbered."""
        headers, body = message("tools/search", revision)
        body["params"]["query"] = f"{query} 000000"
        headers["Authorization"] = f"Bearer {self.key}"
        return {"port": self.port, "path": "/mcp", "headers": headers, "body": body,
                "expected": '"inputSchema"'}  # fmt: skip


async def run(reference: Path, workdir: Path) -> dict[str, Any]:
    """p50 by size, CPU of edge and index, memory, and what one more tool costs."""
    words = await _word_vectors()
    async with AsyncExitStack() as stack:
        paths: dict[int, Route] = {}
        for size in SIZES:
            paths[size] = await stack.enter_async_context(
                _route(workdir / f"finding-{size}", size, words)
            )
            progress(f"{size} tools can be found")
        raw = await stack.enter_async_context(raw_server(workdir / "finding-raw"))
        found = await _measure(paths, *raw)
        for size, path in paths.items():
            for name, pid in (("edge", path.edge_pid), ("index", path.index_pid)):
                rss = psutil.Process(pid).memory_info().rss
                found[f"{size:,} tools: {name} RSS MiB"] = round(rss / 2**20)
            found |= {f"{size:,} tools: {k}": v for k, v in (await _add_one(path)).items()}
    return found


async def _measure(paths: Mapping[int, Route], raw_pid: int, raw_port: int) -> dict[str, Any]:
    dice = random.Random(7)
    found: dict[str, list[float]] = {}
    smallest, largest = min(paths), max(paths)
    for number in range(ROUNDS + 1):
        measured: dict[str, float] = {}
        for revision in REVISIONS:
            for size in (smallest, largest):
                spec = paths[size].request(revision, question(dice))
                raw = {**spec, "port": raw_port, "expected": "hello"}
                raw_s, _ = await cost(raw, [raw_pid], LOAD)
                edge_s, _ = await cost(spec, [paths[size].edge_pid], LOAD)
                measured[f"{size:,} tools: edge CPU / raw {revision}"] = edge_s / raw_s
        p50_s: dict[int, list[float]] = {size: [] for size in paths}
        index_s = dict.fromkeys(paths, 0.0)
        for _ in range(QUESTIONS):
            query = question(dice)
            for size, path in paths.items():
                one = {**path.request(REVISIONS[1], query), **ONE_BY_ONE}
                before_s = cpu_s([path.index_pid])
                p50_s[size].append((await send(one))["p50_s"])
                index_s[size] += cpu_s([path.index_pid]) - before_s
        for size, values in p50_s.items():
            ratios = [a / b for a, b in zip(values, p50_s[smallest], strict=True)]
            measured[f"{size:,} tools: p50 ms"] = 1000 * statistics.median(values)
            measured[f"{size:,} tools: p50 / {smallest:,} tools"] = statistics.median(ratios)
            asked = QUESTIONS * ONE_BY_ONE["count"]
            measured[f"{size:,} tools: index CPU ms"] = 1000 * index_s[size] / asked
        if number:  # the first round warms up
            for name, value in measured.items():
                found.setdefault(name, []).append(value)
        progress(f"round {number} of {ROUNDS}")
    return {name: round(statistics.median(values), 2) for name, values in found.items()}


async def _add_one(path: Route) -> dict[str, float]:
    """One more worker with one tool: seconds until it is found, CPU of edge and index."""
    pids = (path.edge_pid, path.index_pid)
    before_s = [cpu_s([pid]) for pid in pids]
    started_s = time.perf_counter()
    await path.bus.serve(newcomer())
    await until(lambda: _finds(path, "measure_tide"), timeout_s=120)
    took_s = time.perf_counter() - started_s
    edge_s, index_s = (cpu_s([p]) - b for p, b in zip(pids, before_s, strict=True))
    return {
        "new tool found after s": round(took_s, 2),
        "edge CPU s of the change": round(edge_s, 2),
        "index CPU s of the change": round(index_s, 2),
    }


async def _finds(path: Route, query: str) -> bool:
    spec = path.request(REVISIONS[1], query)
    spec["body"]["params"]["query"] = query
    async with httpx.AsyncClient(timeout=60) as client:
        try:
            url = f"http://127.0.0.1:{path.port}/mcp"
            response = await client.post(url, json=spec["body"], headers=spec["headers"])
        except httpx.HTTPError:
            return False
    return f'"name":"{query}"' in response.text


async def _word_vectors() -> tuple[str, dict[str, Vector]]:
    """The model's name, and the vectors of the words that the tools are made of."""
    embedder = await load_tool_embedder(query_threads=2)
    words = sorted({word for text in (*VERBS, *NOUNS, *PLACES) for word in text.lower().split()})
    try:
        vectors = await embedder.embed_short(words, urgent=True)
    finally:
        await embedder.close()
    return embedder.model, dict(zip(words, vectors, strict=True))


def _fill(file: VectorFile, workers: list[Worker], model: str, words: dict[str, Vector]) -> None:
    for each in workers:
        vectors = {}
        # As the index reads it: the keys of its schemas are in another order.
        for entry in map(entry_of, descriptors_of(decode(canonical(each.catalog), Catalog))):
            known = [words[w] for w in re.findall(r"[a-z]+", entry.text.lower()) if w in words]
            total = np.sum(known, axis=0)
            for text in entry.embedded:
                vectors[text_key(model, text)] = total / np.linalg.norm(total)
        file.add(vectors)


@asynccontextmanager
async def _route(
    folder: Path, size: int, words: tuple[str, dict[str, Vector]]
) -> AsyncIterator[Route]:
    dice = random.Random(7)
    workers = [worker(number, TOOLS_EACH, dice) for number in range(size // TOOLS_EACH)]
    dimensions = len(next(iter(words[1].values())))
    path = ToolindexSettings(data_dir=folder).vector_file(dimensions)
    _fill(VectorFile(path, dimensions), workers, *words)
    key, _ = KeyFile(folder / "keys.json").add("bench", ("READER",))
    port_file = folder / "port"
    async with AsyncExitStack() as stack:
        url = await stack.enter_async_context(nats(folder / "nats"))
        bus = await connect(url, name="workers")
        stack.push_async_callback(bus.close)
        for each in workers:
            await bus.serve(each)
        index = await stack.enter_async_context(service("toolindex", url, data_dir=str(folder)))
        edge = await stack.enter_async_context(
            service(
                "edge", url, data_dir=str(folder), port="0", port_file=str(port_file), auth="static",
                keys_file=str(folder / "keys.json"), search_rate_per_s="0",
                abuse_rate_per_s="1000000", required_services=json.dumps(["toolindex"]),
            )
        )  # fmt: skip
        path = Route(bus, edge.pid, index.pid, await port_of(edge, port_file), key)
        last = max(workers[-1].catalog.tools, key=lambda tool: tool.name)
        await until(lambda: _finds(path, last.name), timeout_s=600)
        yield path
