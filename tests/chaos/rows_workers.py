"""Rows 1 to 3 and 25, and their part of 5: workers and edges that end or stand still under load."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import psutil

from searchbus_fakes.ddg import FakeDuckDuckGo
from searchbus_testing import serve, until

from .client import Client, Outcome, counts
from .fleet import READY_S, Fleet
from .scorecard import Measurement, at_least, at_most
from .upstreams import hostile
from .worker import LONG_MS

WORKERS = 3


def silent(row: str, outcomes: Sequence[Outcome]) -> Measurement:
    """Calls of a row that had neither an answer nor a typed error, or a wrong answer (row 5)."""
    found = counts(outcomes)
    return at_most("5", f"silent, late, untyped or wrong in row {row}",
                   found["broken"], 0)  # fmt: skip


async def killed(folder: Path, *, short: bool) -> list[Measurement]:
    """kill -9 of one of three workers at 300 requests a second; one retry."""
    rate_per_s = 100 if short else 300
    async with Fleet(folder) as fleet:
        await fleet.edge()
        workers = [fleet.start("tests.chaos.worker") for _ in range(WORKERS)]
        await fleet.ready(workers=WORKERS)
        async with Client(fleet.ports, short=short) as client:
            await client.load(rate_per_s=rate_per_s / 3, seconds=1)
            loading = asyncio.create_task(
                client.load(rate_per_s=rate_per_s, seconds=3, attempts=2, wait_ms=20)
            )
            await asyncio.sleep(1)
            workers[0].kill()
            outcomes = await loading
    failed = counts(outcomes)["failed"]
    return [
        at_most("1", f"failed of {len(outcomes)} calls, one of 3 workers killed", failed, 0),
        silent("1", outcomes),
        *await _lost_while_it_fetches(folder.with_name("fetches"), short=short),
    ]


async def _lost_while_it_fetches(folder: Path, *, short: bool) -> list[Measurement]:
    """SIGSTOP and kill -9 of the worker that fetches for a cached tool; another one is free."""
    ddg = FakeDuckDuckGo(latency_s=1.0)
    lost: list[tuple[Outcome, float]] = []
    async with serve(ddg.app) as url, hostile() as pages:
        async with Fleet(folder / "ddg") as fleet:
            await fleet.edge()
            scrapers = await fleet.scrapers(url, WORKERS)

            def scraper() -> subprocess.Popen[bytes]:
                return scrapers[int(ddg.requests[-1][1].rpartition(".")[2]) - 11]

            for number, how in enumerate((signal.SIGSTOP, signal.SIGKILL)):
                for tool in ("instant_answer", "web_search"):
                    seen = len(ddg.requests)
                    lost.append(await _lose(
                        fleet, tool, {"query": f"rust {tool} {number}"}, how, scraper,
                        lambda seen=seen: len(ddg.requests) > seen, short=short,
                    ))  # fmt: skip
        async with Fleet(folder / "web") as fleet:
            await fleet.edge()
            readers = [
                fleet.start("searchbus_web", web_routes=json.dumps({"*.example.org": pages}),
                            extract_robots="false")
                for _ in range(2)
            ]  # fmt: skip
            await fleet.ready("web_extract_content", service="web", workers=2)
            for number, how in enumerate((signal.SIGSTOP, signal.SIGKILL)):
                page = f"http://slow.example.org/slow/{number}"
                lost.append(await _lose(
                    fleet, "web_extract_content", {"urls": [page]}, how,
                    lambda: next(r for r in readers if _fetches_from(r, pages)),
                    lambda: any(_fetches_from(r, pages) for r in readers), short=short,
                ))  # fmt: skip
    outcomes = [outcome for outcome, _ in lost]
    return [
        at_most("25", f"failed of {len(lost)} calls whose fetching worker was lost, one retry",
                counts(outcomes)["failed"], 0),
        at_most("25", "slowest of them, from the loss", max(s for _, s in lost), 6, "s"),
        silent("25", outcomes),
    ]  # fmt: skip


async def _lose(
    fleet: Fleet, tool: str, arguments: dict[str, object], how: signal.Signals,
    worker: Callable[[], subprocess.Popen[bytes]], fetches: Callable[[], bool], *, short: bool,
) -> tuple[Outcome, float]:  # fmt: skip
    """Call a tool, and lose the worker that fetches for it; the outcome, and seconds from then."""
    async with Client(fleet.ports, short=short) as client:
        call = asyncio.create_task(client.call(tool, arguments, attempts=2))
        await until(fetches, timeout_s=READY_S)
        lost = worker()
        await asyncio.sleep(0.3)
        lost.send_signal(how)
        lost_s = time.monotonic()
        outcome = await call
        took_s = time.monotonic() - lost_s
        lost.send_signal(signal.SIGCONT)
        await asyncio.sleep(2)  # one that goes on answers pings again
    return outcome, took_s


def _fetches_from(worker: subprocess.Popen[bytes], address: str) -> bool:
    """Whether a process has a connection to an upstream."""
    if worker.poll() is not None:
        return False
    port = int(address.rpartition(":")[2])
    connections = psutil.Process(worker.pid).net_connections("tcp")
    return any(found.raddr and found.raddr.port == port for found in connections)


async def replaced(folder: Path, *, short: bool) -> list[Measurement]:
    """Rolling SIGTERM of all workers and of one of two edges, each after its successor is up."""
    async with Fleet(folder) as fleet:
        edges = [await fleet.edge() for _ in range(2)]
        workers = [fleet.start("tests.chaos.worker") for _ in range(WORKERS)]
        await fleet.ready(workers=WORKERS)
        async with Client(fleet.ports, short=short) as client:
            await client.load(rate_per_s=50, seconds=1)

            async def roll() -> None:
                for worker in workers:
                    fleet.start("tests.chaos.worker")
                    await fleet.ready(workers=WORKERS + 1)
                    worker.send_signal(signal.SIGTERM)
                    await asyncio.to_thread(worker.wait)
                edges[0].send_signal(signal.SIGTERM)
                await asyncio.sleep(1)

            rolling = asyncio.create_task(roll())
            outcomes = []
            while not rolling.done():
                outcomes += await client.load(
                    rate_per_s=50 if short else 100, seconds=1, attempts=2, wait_ms=20
                )
            await rolling
    failed = counts(outcomes)["failed"]
    return [
        at_least("2", "calls meanwhile", len(outcomes), 1),
        at_most("2", "failed calls, workers and an edge replaced", failed, 0),
        silent("2", outcomes),
    ]


async def stopped(folder: Path, *, short: bool) -> list[Measurement]:
    """SIGSTOP of one of three workers: a hung process that keeps its connections."""
    seconds = 8 if short else 25
    async with Fleet(folder) as fleet:
        await fleet.edge()
        workers = [fleet.start("tests.chaos.worker") for _ in range(WORKERS)]
        await fleet.ready(workers=WORKERS)
        async with Client(fleet.ports, short=short) as client:
            await client.load(rate_per_s=50, seconds=2)
            rate_per_s = 30 if short else 60
            loading = asyncio.create_task(client.load(rate_per_s=rate_per_s, seconds=seconds))
            await asyncio.sleep(1)
            stopped_s = asyncio.get_running_loop().time()
            workers[0].send_signal(signal.SIGSTOP)
            outcomes = await loading
    lost = [outcome for outcome in outcomes if outcome.kind != "answer"]
    last_s = max((outcome.started_s - stopped_s for outcome in lost), default=0.0)
    share = 100 * len(lost) / len(outcomes)
    return [
        at_most("3", "losses end after SIGSTOP of one of 3 workers", last_s, 12, "s"),
        at_most("3", "calls lost without a retry of the client", share, 1, "%"),
        silent("3", outcomes),
    ]


async def hung_alone(folder: Path, *, short: bool) -> list[Measurement]:
    """SIGSTOP of the only worker: every call ends long before its deadline, later ones at once."""
    deadline_s = LONG_MS / 1000
    async with Fleet(folder) as fleet:
        await fleet.edge()
        worker = fleet.start("tests.chaos.worker", chaos_timeout_ms=LONG_MS)
        await fleet.ready(workers=1)
        async with Client(fleet.ports, short=short) as client:
            await client.load(rate_per_s=20, seconds=1)
            stopped_s = asyncio.get_running_loop().time()
            worker.send_signal(signal.SIGSTOP)
            during = await client.load(rate_per_s=5, seconds=16, deadline_s=deadline_s)
            worker.send_signal(signal.SIGCONT)
            after = await client.load(rate_per_s=20, seconds=1, attempts=200)
    waited = [o.started_s - stopped_s for o in during if o.took_s > 1]
    return [
        silent("3, the only worker", during),
        at_most("3", "the only worker hangs: calls wait for it until then",
                max(waited, default=0.0), 12, "s"),
        at_most("25", "the only worker hangs: the slowest call, of a deadline of two minutes",
                max(o.took_s for o in during), 6, "s"),
        at_most("3", f"failed of {len(after)} calls after it goes on", counts(after)["failed"], 0),
    ]  # fmt: skip
