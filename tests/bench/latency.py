"""search_fomc at the edge against the same question straight on the store, in one run.

Straight on the store: the question is embedded and searched in this process, as the tool does, with
no bus and no MCP. At the edge: an SDK client over HTTP, edge → NATS → retrieval, each its own
process. The two are asked in turn, so that the machine's noise meets both.
"""

from __future__ import annotations

import asyncio
import json
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from mcp import Client

from searchbus_retrieval.tools import COLLECTION, search_corpus

from .fomc import fill, questions
from .library import opened

ROUNDS = 4


async def run(reference: Path, workdir: Path) -> dict[str, Any]:
    """p50 and p95 of both, and their ratio."""
    async with opened(workdir / "fomc") as (library, _, _):
        if await library.count_documents(COLLECTION) == 0:
            await fill(library, reference)
        documents = await library.count_documents(COLLECTION)
    # Two owners of one folder are not allowed: the service gets a copy.
    data = workdir / "data"
    shutil.copytree(workdir / "fomc", data / "qdrant", dirs_exist_ok=True)
    straight: list[float] = []
    edge: dict[str, list[float]] = {"auto": [], "legacy": []}
    async with opened(workdir / "fomc") as (library, _, _), _stack(data) as url:
        for mode, times in edge.items():
            async with Client(f"{url}/mcp/fomc", mode=mode) as client:
                for number in range(ROUNDS + 1):
                    for question in questions():
                        arguments = {"query": question["question"]}
                        a = await _timed(search_corpus(library, question["question"], 5, None))
                        b = await _timed(client.call_tool("search_fomc", arguments))
                        if number:  # the first round warms up
                            straight.append(a)
                            times.append(b)
    base = statistics.median(straight)
    return {
        "documents": documents,
        "calls": len(straight),
        "store p50 ms": round(base * 1e3, 2),
        "store p95 ms": round(_p95(straight) * 1e3, 2),
        "edge p50 ms": round(statistics.median(edge["auto"]) * 1e3, 2),
        "edge p95 ms": round(_p95(edge["auto"]) * 1e3, 2),
        "edge p50 ms, older revisions": round(statistics.median(edge["legacy"]) * 1e3, 2),
        "edge p50 / store p50": round(statistics.median(edge["auto"]) / base, 2),
        "edge p50 / store p50, older revisions": round(statistics.median(edge["legacy"]) / base, 2),
    }


@asynccontextmanager
async def _stack(data: Path) -> AsyncIterator[str]:
    stack = subprocess.Popen(
        [sys.executable, "-m", "searchbus_cli", "up", "--port", "0", "--data", data],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        while not (data / "state.json").exists():
            if stack.poll() is not None:
                raise RuntimeError("the stack did not start")
            await asyncio.sleep(0.1)
        yield json.loads((data / "state.json").read_text())["url"]
    finally:
        stack.terminate()
        stack.wait(150)


async def _timed(call: Any) -> float:
    started_s = time.perf_counter()
    await call
    return time.perf_counter() - started_s


def _p95(values: list[float]) -> float:
    return statistics.quantiles(values, n=20)[18]
