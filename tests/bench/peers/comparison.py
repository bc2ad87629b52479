"""Measures all systems in turn, round by round, so that the machine's noise meets each alike."""

from __future__ import annotations

import asyncio
import statistics
import time
from contextlib import AsyncExitStack
from operator import truediv
from pathlib import Path
from typing import Any

from ..edge import IN_FLIGHT, REVISIONS, Parts, running_parts
from ..load import cpu_s, send
from ..progress import progress
from .environments import versions
from .system import System
from .systems import running_peers

__all__ = ["run"]

ROUNDS = 5
ROUNDS_S = 150.0
"""No round begins later than this after the first one, but there are three at least."""
LOAD_S = 1.0
"""About this long lasts one load of one system, at 16 in flight; half of it with 1 in flight."""
RAW = "raw ASGI, httptools"
SEARCHBUS = "searchbus"
SETTLE_S = 0.2


async def run(reference: Path, workdir: Path) -> dict[str, Any]:
    """One row a system, with the ratios that have bars."""
    async with AsyncExitStack() as stack:
        progress("peers: starting searchbus")
        one = await stack.enter_async_context(running_parts(workdir / "peers-1"))
        two = await stack.enter_async_context(running_parts(workdir / "peers-2", edges=2))
        peers = await stack.enter_async_context(running_peers(workdir / "peers"))
        systems = [*_own(one, two), *peers.systems]
        counts = {system.name: await _counts(system) for system in systems}
        rounds: list[dict[str, dict[str, float]]] = []
        end_s = time.monotonic() + ROUNDS_S
        while len(rounds) < ROUNDS and (len(rounds) < 3 or time.monotonic() < end_s):
            progress(f"peers: round {len(rounds) + 1} of {ROUNDS}, {len(systems)} systems")
            rounds.append({s.name: await _measure(s, counts[s.name]) for s in systems})
    rows = {system.name: _row(system.name, rounds) for system in systems}
    return {
        **_ratios(rounds),
        "rounds": len(rounds),
        "systems": rows,
        "skipped": peers.skipped,
        "versions": {
            package: versions(peer)[package]
            for peer, package in (
                ("mcp", "mcp"), ("fastmcp", "fastmcp"), ("contextforge", "mcp-contextforge-gateway")
            )
        },
    }  # fmt: skip


def _own(one: Parts, two: Parts) -> list[System]:
    raw = (one.raw_pid,)
    systems = [
        System(RAW, one.raw(), raw),
        System("raw ASGI, h11", {**one.raw(), "port": one.raw_h11_port}, raw),
        System("raw NATS", {"nats_url": one.nats_url}, raw, (one.nats_pid,)),
    ]
    behind = (one.worker_pid, one.nats_pid)
    for revision in REVISIONS:
        spec = one.request("tools/call", revision)
        systems.append(System(f"{SEARCHBUS} {revision}", spec, one.edge_pids, behind))
    spec = two.request("tools/call", REVISIONS[0])
    name = f"{SEARCHBUS}, 2 edges {REVISIONS[0]}"
    return [*systems, System(name, spec, two.edge_pids, (two.worker_pid, two.nats_pid))]


async def _counts(system: System) -> dict[int, int]:
    """Requests a connection that take about LOAD_S, by the requests in flight. Warms up, too."""
    counts = {}
    for in_flight, load_s, least in ((IN_FLIGHT, LOAD_S, 2), (1, LOAD_S / 2, 10)):
        few = await send({**system.spec, "in_flight": in_flight, "count": 3})
        rate = few["requests/s"]
        if rate * load_s / in_flight > 10:
            spec = {**system.spec, "in_flight": in_flight, "count": 10}
            rate = (await send(spec))["requests/s"]
        counts[in_flight] = max(least, round(rate * load_s / in_flight))
    return counts


async def _measure(system: System, counts: dict[int, int]) -> dict[str, float]:
    before_s, all_before_s = cpu_s(system.pids), cpu_s(system.behind)
    many = await send({**system.spec, "in_flight": IN_FLIGHT, "count": counts[IN_FLIGHT]})
    await asyncio.sleep(SETTLE_S)  # what threads write afterwards belongs to the requests
    front_s = (cpu_s(system.pids) - before_s) / many["requests"]
    behind_s = (cpu_s(system.behind) - all_before_s) / many["requests"]
    one = await send({**system.spec, "in_flight": 1, "count": counts[1]})
    return {
        "calls/s": many["requests/s"],
        "CPU us": front_s * 1e6,
        "CPU us, all processes": (front_s + behind_s) * 1e6,
        "p50 ms": many["p50_s"] * 1e3,
        "p99 ms": many["p99_s"] * 1e3,
        "p50 ms, 1 in flight": one["p50_s"] * 1e3,
        "p99 ms, 1 in flight": one["p99_s"] * 1e3,
    }


def _row(name: str, rounds: list[dict[str, dict[str, float]]]) -> dict[str, float]:
    """Medians over the rounds; ratios are made within a round."""
    row = {
        key: round(statistics.median(r[name][key] for r in rounds), 2) for key in rounds[0][name]
    }
    for key in ("CPU us", "CPU us, all processes"):
        ratio = statistics.median(r[name][key] / r[RAW]["CPU us"] for r in rounds)
        row[key.replace("CPU us", "CPU / raw")] = round(ratio, 2)
    rates = [r[name]["calls/s"] for r in rounds]
    return {**row, "calls/s min": round(min(rates), 2), "calls/s max": round(max(rates), 2)}


def _ratios(rounds: list[dict[str, dict[str, float]]]) -> dict[str, float]:
    """Calls a second of searchbus relative to each peer of the same revision; its p99 / p50."""
    found = {}
    for revision in REVISIONS:
        own = f"{SEARCHBUS} {revision}"
        for peer in rounds[0]:
            if peer.endswith(revision) and not peer.startswith(SEARCHBUS):
                ratio = statistics.median(r[own]["calls/s"] / r[peer]["calls/s"] for r in rounds)
                found[f"calls/s / {peer}"] = round(ratio, 2)
        tails = [r[own]["p99 ms"] / r[own]["p50 ms"] for r in rounds]
        found[f"p99 / p50 {revision}"] = round(statistics.median(tails), 2)
        # Other programs of the machine only ever add to a tail.
        found[f"p99 / p50, quietest round {revision}"] = round(min(tails), 2)
    both = [r[f"{SEARCHBUS}, 2 edges {REVISIONS[0]}"]["calls/s"] for r in rounds]
    one = [r[f"{SEARCHBUS} {REVISIONS[0]}"]["calls/s"] for r in rounds]
    found["calls/s of 2 edges / of 1"] = round(statistics.median(map(truediv, both, one)), 2)
    return found
