"""DuckDuckGo: cost of a page, throughput by workers, and a minute of paced load without a refusal."""

from __future__ import annotations

import asyncio
import itertools
import json
import statistics
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

from searchbus_bus import Bus, connect
from searchbus_contracts import Fault
from searchbus_contracts.web import WebSearchReply, WebSearchRequest
from searchbus_ddg.parse import parse_page
from searchbus_fakes.ddg import FakeDuckDuckGo
from searchbus_testing import serve

from .stack import nats, service

WORKERS = (1, 2, 4, 8)
LATENCY_S = 0.3
SECONDS = 8.0
PACED_SECONDS = 60.0


async def run(reference: Path, workdir: Path) -> dict[str, Any]:
    """Milliseconds a page; requests a second with 1, 2, 4, 8 workers; refusals in a paced minute."""
    measured: dict[str, Any] = {"parse p50 ms": _parse_ms(reference)}
    rates = {n: await _throughput(workdir / f"ddg-{n}", n) for n in WORKERS}
    for number, rate in rates.items():
        measured[f"requests/s, {number} workers"] = round(rate, 1)
        measured[f"share of linear, {number} workers"] = round(rate / (number * rates[1]), 3)
    return measured | await _paced_minute(workdir / "ddg-paced")


def _parse_ms(reference: Path) -> float:
    pages = [
        p.read_bytes() for p in sorted((reference / "fixtures" / "ddg").glob("results_*.html"))
    ]
    times_s = []
    for page in pages * 50:
        started_s = time.perf_counter()
        parse_page(200, page)
        times_s.append(time.perf_counter() - started_s)
    return round(statistics.median(times_s) * 1000, 3)


async def _throughput(folder: Path, workers: int) -> float:
    """Different queries from many callers, an upstream of 300 ms, no pacing."""
    async with _fleet(folder, workers, FakeDuckDuckGo(latency_s=LATENCY_S), interval_s=0) as bus:
        numbers = itertools.count()
        done = 0
        end_s = time.perf_counter() + SECONDS

        async def caller() -> None:
            nonlocal done
            while time.perf_counter() < end_s:
                await _search(bus, f"cats {next(numbers)}")
                done += time.perf_counter() < end_s

        # Enough to keep every slot of every worker busy, however the broker deals them out.
        await asyncio.gather(*(caller() for _ in range(workers * 16)))
        return done / SECONDS


async def _paced_minute(folder: Path) -> dict[str, Any]:
    """Three addresses; the fake blocks an address after 5 requests within 5 s."""
    fake = FakeDuckDuckGo(quick_requests=5, window_s=5.0, latency_s=0.1)
    failed = asked = 0
    async with _fleet(folder, 3, fake, interval_s=1.1) as bus:

        async def ask(number: int) -> None:
            nonlocal failed, asked
            asked += 1
            try:
                await _search(bus, f"dogs {number}")
            except Fault:
                failed += 1

        tasks = []
        for number in range(int(PACED_SECONDS * 2)):
            tasks.append(asyncio.create_task(ask(number)))
            await asyncio.sleep(0.5)
        await asyncio.gather(*tasks)
    return {"paced minute: asked": asked, "paced minute: failed": failed,
            "paced minute: challenges": fake.challenges}  # fmt: skip


@asynccontextmanager
async def _fleet(
    folder: Path, workers: int, fake: FakeDuckDuckGo, *, interval_s: float
) -> AsyncIterator[Bus]:
    async with AsyncExitStack() as exit_:
        url = await exit_.enter_async_context(nats(folder))
        upstream = await exit_.enter_async_context(serve(fake.app))
        egresses = json.dumps([f"bind:127.0.0.{n}" for n in range(41, 41 + workers)])
        for number in range(workers):
            await exit_.enter_async_context(
                service(
                    "ddg", url, ddg_egress=egresses, worker_index=str(number),
                    ddg_html_url=f"{upstream}/html/", ddg_lite_url=f"{upstream}/lite/",
                    ddg_interval_s=str(interval_s), ddg_min_interval_s=str(interval_s),
                    max_in_flight="1000",
                )
            )  # fmt: skip
        bus = await connect(url, name="bench")
        exit_.push_async_callback(bus.close)
        async with asyncio.timeout(60):
            while len(await bus.workers()) < workers:
                await asyncio.sleep(0.1)
        yield bus


async def _search(bus: Bus, query: str) -> WebSearchReply:
    return await bus.request(
        bus.subjects.endpoint("ddg", "search"), WebSearchRequest(query=query), WebSearchReply,
        service="ddg", timeout_s=30.0,
    )  # fmt: skip
