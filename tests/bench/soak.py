"""100,000 tool calls at full speed: the edge's memory, and whether every trace arrives whole.

Each call continues a trace of its client's own. Edge and worker write their spans to one file, as
they do without a collector.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from pathlib import Path
from typing import Any

import psutil

from searchbus_runtime.traces import read_spans

from .edge import IN_FLIGHT, REVISIONS, running_parts
from .load import send
from .progress import progress

EARLY, CALLS = 20_000, 100_000
_CLIENT_SPAN = "5eed5eed5eed5eed"
_ZEROS = "00000000"
_TRACES = ("5eed", "ea5e")
"""How the traces of both parts begin."""


async def run(reference: Path, workdir: Path) -> dict[str, Any]:
    """Resident memory after 20,000 and 100,000 calls, and the share of connected traces."""
    folder = workdir / "soak"
    more = {"search": "true", "trace_file_bytes": 2**31}
    async with running_parts(folder, **more) as parts:
        (edge,) = parts.edge_pids
        rss = [_rss_mib(edge)]
        rates = []
        for number, count in enumerate((EARLY, CALLS - EARLY)):
            spec = {**parts.request("tools/call", REVISIONS[1]), "numbered": _ZEROS,
                    "in_flight": IN_FLIGHT, "count": count // IN_FLIGHT}  # fmt: skip
            trace_id = _TRACES[number] * 6 + _ZEROS
            spec["body"]["params"]["_meta"]["traceparent"] = f"00-{trace_id}-{_CLIENT_SPAN}-01"
            rates.append((await send(spec))["requests/s"])
            rss.append(_rss_mib(edge))
            progress(f"{count} calls at {rates[-1]:.0f}/s; the edge has {rss[-1]:.0f} MiB")
        await asyncio.sleep(3)
    connected = await asyncio.to_thread(_connected, folder / "traces.jsonl")
    return {
        "calls/s": round(rates[-1]),
        "edge RSS MiB at the start": round(rss[0], 1),
        f"edge RSS MiB after {EARLY:,} calls": round(rss[1], 1),
        f"edge RSS MiB after {CALLS:,} calls": round(rss[2], 1),
        "MiB added by the last 80,000 calls": round(rss[2] - rss[1], 1),
        "share of connected traces": connected / CALLS,
    }


def _rss_mib(pid: int) -> float:
    return float(psutil.Process(pid).memory_info().rss) / 2**20


def _connected(path: Path) -> int:
    """Traces that lead from the client's span over the edge and the bus to the worker."""
    traces: dict[str, list[tuple[str, str, str | None]]] = defaultdict(list)
    for span in read_spans(path):
        if span.trace_id.startswith(_TRACES):
            traces[span.trace_id].append((span.service, span.span_id, span.parent_id))
    connected = 0
    for spans in traces.values():
        parents = {span_id: parent for _, span_id, parent in spans}
        workers = [span_id for service, span_id, _ in spans if service == "echo"]
        if len(workers) == 1 and len(spans) == 3:
            sent = parents[workers[0]]
            received = parents.get(sent or "")
            connected += parents.get(received or "") == _CLIENT_SPAN
    return connected
