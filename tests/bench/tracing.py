"""What tracing costs: the same calls at two stacks in turn, one that exports every span over OTLP.

Both have their own edge and retrieval service on one NATS server, and the same documents. A call of
the connector's `search` makes seven spans in two processes.
"""

from __future__ import annotations

import json
import shutil
import statistics
import time
from contextlib import AsyncExitStack
from itertools import islice
from pathlib import Path
from typing import Any

import httpx

from searchbus_ingest.sources.jsonl import read_jsonl
from searchbus_testing import until
from tests.integration.collector import Collector

from .library import opened
from .stack import nats, service

DOCUMENTS = 200
ROUNDS = 5
CALLS = 400
SETTLE_S = 12.0
"""Without a span for so long, the last batch has come: one is sent every five seconds."""
HEADERS = {
    "Accept": "application/json, text/event-stream",
    "MCP-Protocol-Version": "2025-11-25",  # without it, the SDK serves the call
}


async def run(reference: Path, workdir: Path) -> dict[str, Any]:
    """p50 of both in ms, and the share that tracing adds: the median over the rounds."""
    folder = workdir / "tracing"
    await _fill(reference / "data" / "docs" / "cranfield" / "corpus.jsonl", folder / "documents")
    async with AsyncExitStack() as stack:
        collector = stack.enter_context(Collector())
        url = await stack.enter_async_context(nats(folder / "nats"))
        traced = await _edge(stack, folder, url, "traced", otlp_endpoint=collector.url)
        plain = await _edge(stack, folder, url, "plain", trace_sample_ratio="0")
        client = await stack.enter_async_context(httpx.AsyncClient(trust_env=False))
        added, p50s = [], []
        for _ in range(ROUNDS):
            times: dict[str, list[float]] = {traced: [], plain: []}
            for number in range(CALLS):
                for edge in (traced, plain) if number % 2 else (plain, traced):
                    times[edge].append(await _call(client, edge, number))
            p50_ms = [1000 * statistics.median(times[edge]) for edge in (traced, plain)]
            p50s.append(p50_ms)
            added.append(p50_ms[0] / p50_ms[1] - 1)
        await until(lambda: time.monotonic() - collector.last_s > SETTLE_S, timeout_s=600)
        spans = sum(len(found) for found in collector.spans.values())
    return {
        "calls": ROUNDS * CALLS,
        "spans a call": round(spans / (ROUNDS * CALLS), 1),
        "p50 ms traced": round(statistics.median(p[0] for p in p50s), 2),
        "p50 ms plain": round(statistics.median(p[1] for p in p50s), 2),
        "added share of p50": round(statistics.median(added), 4),
    }


async def _fill(corpus: Path, folder: Path) -> None:
    async with opened(folder / "qdrant") as (library, _, _):
        for item in islice(read_jsonl(corpus, "cranfield"), DOCUMENTS):
            if item.document is not None:
                await library.store("cranfield", item.document)


async def _edge(stack: AsyncExitStack, folder: Path, url: str, name: str, **settings: str) -> str:
    data = folder / name
    shutil.copytree(folder / "documents", data)
    port_file = data / "port"
    common = {"subject_prefix": name, "data_dir": str(data), **settings}
    await stack.enter_async_context(service("retrieval", url, **common))
    await stack.enter_async_context(
        service(
            "edge", url, **common, port="0", port_file=str(port_file), search="false",
            search_rate_per_s="0", connector_sources=json.dumps({"documents": 1.0}),
            required_services=json.dumps(["retrieval"]),
        )
    )  # fmt: skip

    async def ready() -> str | None:
        try:
            edge = f"http://127.0.0.1:{port_file.read_text().strip()}"
            answer = httpx.get(f"{edge}/readyz")
            away = answer.json().get("details", {}).get("away")
            return edge if answer.status_code == 200 and not away else None
        except (OSError, ValueError, httpx.HTTPError):
            return None

    return await until(ready, timeout_s=600)


async def _call(client: httpx.AsyncClient, edge: str, number: int) -> float:
    body = {
        "jsonrpc": "2.0",
        "id": number,
        "method": "tools/call",
        "params": {
            "name": "search",
            "arguments": {"query": f"lift of a wing at high speed {number}"},
        },
    }
    started_s = time.perf_counter()
    response = await client.post(f"{edge}/mcp/connector", json=body, headers=HEADERS)
    took_s = time.perf_counter() - started_s
    assert '"isError":true' not in response.text
    assert response.status_code == 200, response.text
    return took_s
