"""The soak: mixed calls while one process after the other is restarted; twenty minutes with `--long`.

Every answer is compared with what was asked: a text of its own, a document by a word that no other one has,
results that repeat the query.

What is held is compared with what was held after a warm-up, in which every process and NATS were restarted
once, and more calls were sent at once than ever after: a process keeps the memory of its busiest moment.
An edge and a worker are never restarted, so that both can be watched for the whole time.
"""

from __future__ import annotations

import asyncio
import json
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from searchbus_bus import connect
from searchbus_bus.tasks import wait_for_event
from searchbus_contracts import Actor
from searchbus_contracts.ingest import Chunk, IngestReply, IngestRequest, NewDocument, document_id
from searchbus_fakes.ddg import FakeDuckDuckGo
from searchbus_testing import serve

from .client import Client, Outcome
from .fleet import Fleet
from .held import KINDS, Kept
from .scorecard import Measurement, at_least, at_most

DOCUMENTS = 30
RATE_PER_S = 30.0
PEAKS, PEAK_PER_S = 3, 150.0
ATTEMPTS = 40
LONG_S = 600.0
BLOCKS_PER_MIB = 10_000
"""Of Python's memory; a block has a hundred bytes on average."""
SETTLE_S = 120.0
"""Only ends a wait for what never goes away."""


async def soak(folder: Path, *, short: bool, seconds: float = 0.0) -> list[Measurement]:
    """Calls of four kinds; kill -9 and SIGTERM in turn, and NATS killed after each round."""
    seconds = seconds or (16.0 if short else 45.0)
    every_s = min(30.0, seconds / 8)
    long = seconds >= LONG_S
    ddg = FakeDuckDuckGo(latency_s=0.02)
    async with serve(ddg.app) as url, Fleet(folder, data_dir=folder / "data") as fleet:
        restarts = _Restarts(fleet, url)
        kept = await Kept.start(fleet)
        await fleet.ready(workers=3)
        await fleet.ready("search_fomc")
        await fleet.ready("web_search")
        await _ingest(fleet)
        mixed = _Mixed(fleet, short=short)
        async with restarts.every(every_s):  # a whole round, where there is the time
            await mixed.run((restarts.kinds + 1) * every_s if long else seconds / 10)
        if long:  # more at once than ever after, so that no later peak takes more memory
            for _ in range(PEAKS):
                peak = asyncio.create_task(mixed.run(3.0, rate_per_s=PEAK_PER_S))
                await asyncio.sleep(0.5)
                await restarts.nats(away_s=1.0)
                await peak
        await fleet.ready(workers=3)
        before, calls, mixed.outcomes = await kept.held(), mixed.calls, Counter()
        restarts.count = 0
        async with restarts.every(every_s):
            await mixed.run(seconds)
        await fleet.ready(workers=3)
        give_up_s = time.monotonic() + SETTLE_S
        while (more := (after := await kept.held()).more_than(before)).total():
            if time.monotonic() > give_up_s:
                break
            await asyncio.sleep(1)
        share = 10_000 / (mixed.calls - calls)
        sys.stderr.write(after.grown_since(before))
    found = mixed.outcomes
    memory = [
        at_most("soak", f"memory added to the {name} by 10,000 calls",
                (after.rss_mib[name] - before.rss_mib[name]) * share, 1, "MiB")
        for name in before.rss_mib
    ] + [
        at_most("soak", f"memory of Python's added to the {name} by 10,000 calls",
                (after.blocks[name] - before.blocks[name]) * share / BLOCKS_PER_MIB, 1, "MiB")
        for name in before.blocks
    ]  # fmt: skip
    return [
        at_least("soak", f"restarted in {seconds:.0f} s", restarts.count, seconds // every_s // 2,
                 "processes"),
        at_most("soak", f"silent or untyped of {found.total()} calls",
                found["silent"] + found["lost"], 0),
        at_most("soak", "answered later than the deadline", found["late"], 0),
        at_most("soak", f"wrong answers of {found.total()}", found["wrong"], 0),
        at_most("soak", "failed, though the client tried for some seconds",
                100 * (found["error"] + found["refused"]) / found.total(), 1, "%"),
        *(memory if long else []),  # else it has not even warmed up
        *(at_most("soak", f"{name} more than before", more[name], 0) for name in KINDS),
    ]  # fmt: skip


class _Restarts:
    """Starts the services, and ends one of them in turn."""

    def __init__(self, fleet: Fleet, ddg_url: str) -> None:
        self._fleet = fleet
        self._turn = 0
        self.count = 0

        def scraper(number: int) -> subprocess.Popen[bytes]:
            egress = json.dumps([f"bind:127.0.0.{11 + n}" for n in range(2)])
            return fleet.start(
                "searchbus_ddg", worker_index=number, ddg_egress=egress,
                ddg_html_url=f"{ddg_url}/html/", ddg_lite_url=f"{ddg_url}/lite/",
                ddg_interval_s=0.02, ddg_min_interval_s=0.01,
            )  # fmt: skip

        def echo() -> subprocess.Popen[bytes]:
            return fleet.start("tests.chaos.worker")

        self._starts: list[Callable[[], subprocess.Popen[bytes]]] = [
            echo, lambda: scraper(0), echo, lambda: fleet.start("searchbus_retrieval"),
            lambda: scraper(1),
        ]  # fmt: skip
        self._running = [start() for start in self._starts]
        self.kinds = len(self._starts) + 1
        """The processes of a round, and NATS."""

    @asynccontextmanager
    async def every(self, seconds: float) -> AsyncIterator[None]:
        """Restart one after the other; NATS after each round. What is ended is always started."""
        stop = asyncio.Event()
        task = asyncio.create_task(self._run(seconds, stop))
        try:
            yield
        finally:
            stop.set()
            await task

    async def _run(self, every_s: float, stop: asyncio.Event) -> None:
        while not await wait_for_event(stop, every_s):
            place = self._turn % self.kinds
            kind = signal.SIGKILL if self._turn % 2 else signal.SIGTERM
            self._turn += 1
            self.count += 1
            if place == len(self._starts):
                await self.nats()
                continue
            process = self._running[place]
            process.send_signal(kind)
            await asyncio.to_thread(process.wait)
            self._running[place] = self._starts[place]()

    async def nats(self, *, away_s: float = 0.0) -> None:
        """Kill NATS and start it again."""
        (server,) = self._fleet.nats
        await asyncio.to_thread(server.stop)
        await asyncio.sleep(away_s)
        await asyncio.to_thread(server.start)


class _Mixed:
    """Sends calls of four kinds and judges their answers."""

    def __init__(self, fleet: Fleet, *, short: bool) -> None:
        self._fleet = fleet
        self._short = short
        self._chance = random.Random(11)
        self.outcomes: Counter[str] = Counter()
        self.calls = 0

    async def run(self, seconds: float, *, rate_per_s: float = RATE_PER_S) -> None:
        """At an even rate, over connections that end with it."""
        tasks: set[asyncio.Task[None]] = set()
        start_s = time.monotonic()
        number = 0
        async with Client(self._fleet.ports, short=self._short) as client:
            while (due_s := number / rate_per_s) < seconds:
                await asyncio.sleep(max(0.0, start_s + due_s - time.monotonic()))
                task = asyncio.create_task(self._one(client))
                tasks.add(task)
                task.add_done_callback(tasks.discard)
                number += 1
            await asyncio.gather(*tasks)

    async def _one(self, client: Client) -> None:
        self.calls += 1
        kind = self._chance.random()
        number = self._chance.randrange(DOCUMENTS)
        if kind < 0.5:
            outcome = await client.echo(attempts=ATTEMPTS, wait_ms=self._chance.choice((0, 50)))
        elif kind < 0.7:
            outcome = await self._call(
                client, "search_fomc", {"query": _word(number), "top_k": 1}, _word(number)
            )
        elif kind < 0.9:
            key = {"document_id": document_id("fomc", f"d{number}")}
            outcome = await self._call(client, "get_document", key, _text(number))
        else:
            query = f"soak {self._chance.randrange(10**9)}"
            outcome = await self._call(client, "web_search", {"query": query}, query)
        self.outcomes[outcome.kind] += 1

    async def _call(
        self, client: Client, tool: str, arguments: dict[str, object], expected: str
    ) -> Outcome:
        found = await client.call(tool, arguments, attempts=ATTEMPTS, deadline_s=45)
        in_text = json.dumps(expected, ensure_ascii=False)[1:-1]
        if found.kind == "answer" and in_text not in found.text and expected not in found.text:
            return Outcome("wrong", "", found.started_s, found.took_s)
        return found


def _word(number: int) -> str:
    return f"whaleword{number:03}x"


def _text(number: int) -> str:
    return f"The Committee decided about {_word(number)}. " * 50


async def _ingest(fleet: Fleet) -> None:
    bus = await connect(fleet.nats_url, name="soak")
    documents = tuple(
        NewDocument(
            document_id=document_id("fomc", f"d{number}"), title=f"About {_word(number)}",
            text=_text(number), chunks=(Chunk(start=0, end=1000),), metadata={"date": "2024-01-31"},
        )
        for number in range(DOCUMENTS)
    )  # fmt: skip
    await bus.request(
        bus.subjects.endpoint("retrieval", "ingest"),
        IngestRequest(collection="fomc", documents=documents), IngestReply, service="retrieval",
        timeout_s=120, actor=Actor(subject="soak", roles=("*",)),
    )  # fmt: skip
    await bus.close()
