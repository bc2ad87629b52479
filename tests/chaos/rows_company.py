"""Row 22: a thousand light workers and twenty edges on three NATS servers, as a large company has them.

The workers are tasks of a few processes; the servers and the edges are real processes. Nobody calls while CPU and
traffic are measured.
"""

from __future__ import annotations

import asyncio
import re
import statistics
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from searchbus_bus import connect
from searchbus_bus.catalog.directory import Directory
from searchbus_testing import until

from .client import Client, Outcome, counts
from .fleet import READY_S, Fleet, monitor, rss_mib
from .rows_workers import silent
from .scorecard import Measurement, at_least, at_most

_EDGES_AT_ONCE = 4
_HEALED_S = 60.0


@dataclass(frozen=True)
class Idle:
    """What nobody's calls cost.

    Attributes:
        cpu_share: of a core, at an edge.
        rss_mib: of an edge.
        edge_bytes_per_s: received by an edge.
        workers_bytes_per_s: sent by all workers.
        routes_bytes_per_s: between the servers.
    """

    cpu_share: float
    rss_mib: float
    edge_bytes_per_s: float
    workers_bytes_per_s: float
    routes_bytes_per_s: float


async def thousand_workers(folder: Path, *, short: bool) -> list[Measurement]:
    """All edges list what all workers offer, at a bounded cost; calls are spread; a server is lost meanwhile."""
    count, edges, processes = (50, 3, 1) if short else (1_000, 20, 4)
    idle_s, calls, rate_per_s = (1.0, 500, 30) if short else (20.0, 10_000, 100)
    of = f"{count} workers, {edges} edges"
    async with Fleet(folder, cluster=3, log_level="error") as fleet:
        started = []
        for _ in range(0, edges, _EDGES_AT_ONCE):
            some = min(_EDGES_AT_ONCE, edges - len(started))
            started += await asyncio.gather(*(fleet.edge() for _ in range(some)))
        pids = [edge.pid for edge in started]
        without = await _idle(fleet, pids, idle_s)
        for _ in range(processes):
            fleet.start("tests.chaos.worker", "many", str(count // processes), "many")
        all_s = await _listed(fleet, "many", ready=processes)
        bus = await connect(fleet.nats_url, name="follower")
        directory = Directory(bus)
        await directory.start()
        await until(lambda: directory.count("many") >= count, timeout_s=READY_S)
        with_workers = await _idle(fleet, pids, idle_s)
        fleet.start("tests.chaos.worker", "many", "1", "fresh")
        fresh_s = await _listed(fleet, "fresh", ready=1)
        spread = await _spread(fleet, calls)
        seen = directory.count("many")
        lost = await _server_lost(fleet, rate_per_s, short=short)
        since_s = time.monotonic()
        while directory.count("many") < count and time.monotonic() - since_s < _HEALED_S:
            await asyncio.sleep(0.1)
        healed_s = time.monotonic() - since_s
        await directory.close()
        await bus.close()
    answered = sum(spread.values())
    mean = answered / count
    # Of an even lottery this is about 1.
    unevenness = statistics.pvariance([*spread.values(), *[0] * (count - len(spread))]) / mean
    failed = counts(lost)["failed"]
    return [
        at_least("22", f"seen of {count} light workers, also after all else", min(seen, count), count),
        at_most("22", f"{of}: the last edge lists what all offer, after the last one is ready", all_s, 5, "s"),
        at_most("22", f"{of}: the last edge lists a new service, after it is ready", fresh_s, 2, "s"),
        at_most("22", f"{of}: CPU of an edge that nobody calls", 100 * with_workers.cpu_share, 10, "% of a core"),
        at_most("22", f"{of}: CPU of such an edge without workers", 100 * without.cpu_share, 5, "% of a core"),
        at_most("22", f"{of}: memory of an edge", with_workers.rss_mib, 250, "MiB"),
        at_most("22", f"{of}: memory of an edge for the workers", with_workers.rss_mib - without.rss_mib, 50, "MiB"),
        at_most("22", f"{of}: discovery, received by an edge", with_workers.edge_bytes_per_s / 1000, 200, "kB/s"),
        at_most("22", f"{of}: discovery, sent by all workers", with_workers.workers_bytes_per_s / 1000, 2_500, "kB/s"),
        at_most("22", f"{of}: discovery, between the servers", with_workers.routes_bytes_per_s / 1000, 4_000, "kB/s"),
        at_most("22", f"failed of {calls} calls of {of}", calls - answered, 0),
        at_most("22", f"{of}: variance of the calls of a worker by their mean", unevenness, 1.5, "(1: a lottery)"),
        at_most("22", f"{of}: most calls of a worker", max(spread.values()) / mean, 4, "× the mean"),
        at_most("22", f"failed of {len(lost)} calls, one of 3 servers killed, one retry", failed, 0),
        at_most("22", f"{of}: all are seen again, after the server came back", healed_s, 15, "s"),
        silent("22, a server lost", lost),
    ]  # fmt: skip


async def _listed(fleet: Fleet, tool: str, *, ready: int) -> float:
    """Wait until all edges list a tool; seconds since the last of so many processes was ready."""
    said = re.compile(rf"{tool} ready at ([\d.]+)")
    await asyncio.gather(*(_lists(port, tool) for port in fleet.ports))
    listed_s = time.monotonic()
    await until(
        lambda: len(said.findall(fleet.log)) == ready, timeout_s=READY_S,
        message=lambda: fleet.log[-4000:],
    )  # fmt: skip
    return max(0.0, listed_s - max(map(float, said.findall(fleet.log))))


async def _lists(port: int, tool: str) -> None:
    async with Client([port]) as client:

        async def listed() -> bool:
            _, found = await client.post("tools/list", {})
            return tool in {t["name"] for t in found.get("result", {}).get("tools", [])}

        await until(listed, timeout_s=READY_S)


async def _idle(fleet: Fleet, pids: list[int], seconds: float) -> Idle:
    """What edges, workers and servers do while nobody calls."""
    await asyncio.sleep(1)
    before = _used(fleet, pids)
    since_s = time.monotonic()
    await asyncio.sleep(seconds)
    after = _used(fleet, pids)
    took_s = time.monotonic() - since_s
    return Idle(
        cpu_share=(after["cpu_s"] - before["cpu_s"]) / took_s / len(pids),
        rss_mib=statistics.median(rss_mib(pid) for pid in pids),
        edge_bytes_per_s=(after["edge"] - before["edge"]) / took_s / len(pids),
        workers_bytes_per_s=(after["many"] - before["many"]) / took_s,
        routes_bytes_per_s=(after["routes"] - before["routes"]) / took_s,
    )


def _used(fleet: Fleet, pids: list[int]) -> Counter[str]:
    """CPU of the edges; bytes from the servers to edges, from workers to servers, between the servers."""
    found: Counter[str] = Counter()
    for pid in pids:
        spent = psutil.Process(pid).cpu_times()
        found["cpu_s"] += spent.user + spent.system  # type: ignore[assignment]
    for port in fleet.monitors():
        clients: list[dict[str, Any]] = monitor(port, "connz?limit=4096")["connections"]
        for each in clients:
            name = each.get("name", "")
            found[name] += each["in_bytes"] if name == "many" else each["out_bytes"]
        found["routes"] += sum(each["in_bytes"] for each in monitor(port, "routez")["routes"])
    return found


async def _spread(fleet: Fleet, calls: int) -> Counter[str]:
    """Calls at all edges in turn; worker → how many it answered."""
    found: Counter[str] = Counter()
    left = iter(range(calls))
    async with Client(fleet.ports) as client:

        async def caller() -> None:
            for _ in left:
                outcome = await client.call("many", {}, attempts=2)
                if outcome.kind == "answer":
                    found[outcome.text] += 1

        await asyncio.gather(*(caller() for _ in range(20)))
    return found


async def _server_lost(fleet: Fleet, rate_per_s: float, *, short: bool) -> list[Outcome]:
    """kill -9 of one server of three, and its return, while edges are called."""
    async with Client(fleet.ports, short=short) as client:
        calling = asyncio.create_task(
            client.load(rate_per_s=rate_per_s, seconds=8, tool="many", attempts=2)
        )
        await asyncio.sleep(2)
        server = fleet.nats[0]
        await asyncio.to_thread(server.stop)
        await asyncio.sleep(3)
        await asyncio.to_thread(server.start)
        return await calling
