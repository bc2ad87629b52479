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
from pathlib import Path
from typing import Any

from mcp import Client

from searchbus_ingest.sources.jsonl import read_jsonl
from searchbus_retrieval.library import Library
from searchbus_retrieval.tools import COLLECTION, search_corpus
from searchbus_vectors import load_embedder, open_store

from .fomc import questions

ROUNDS = 4


async def run(reference: Path, workdir: Path) -> dict[str, Any]:
    """p50 and p95 of both, and their ratio."""
    embedder = await load_embedder()
    store = await open_store(folder=workdir / "fomc")
    library = await Library.open(store, embedder)
    if await library.count_documents(COLLECTION) == 0:
        for item in read_jsonl(reference / "data" / "fomc" / "docs.jsonl", COLLECTION):
            assert item.document is not None
            await library.store(COLLECTION, item.document, {})
    documents = await library.count_documents(COLLECTION)
    await store.close()
    # Two owners of one folder are not allowed: the service gets a copy.
    data = workdir / "data"
    shutil.copytree(workdir / "fomc", data / "qdrant", dirs_exist_ok=True)
    store = await open_store(folder=workdir / "fomc")
    library = await Library.open(store, embedder)
    stack = subprocess.Popen(
        [sys.executable, "-m", "searchbus_cli", "up", "--port", "0", "--data", data],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    straight: list[float] = []
    edge: dict[str, list[float]] = {"auto": [], "legacy": []}
    try:
        state = data / "state.json"
        while not state.exists():
            if stack.poll() is not None:
                raise RuntimeError("the stack did not start")
            await asyncio.sleep(0.1)
        url = json.loads(state.read_text())["url"] + "/mcp/fomc"
        for mode, times in edge.items():
            async with Client(url, mode=mode) as client:
                for number in range(ROUNDS + 1):
                    for question in questions():
                        arguments = {"query": question["question"]}
                        a = await _timed(search_corpus(library, question["question"], 5, None))
                        b = await _timed(client.call_tool("search_fomc", arguments))
                        if number:  # the first round warms up
                            straight.append(a)
                            times.append(b)
    finally:
        stack.terminate()
        stack.wait(150)
        await store.close()
        await embedder.close()
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


async def _timed(call: Any) -> float:
    started_s = time.perf_counter()
    await call
    return time.perf_counter() - started_s


def _p95(values: list[float]) -> float:
    return statistics.quantiles(values, n=20)[18]
