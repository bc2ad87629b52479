"""The soak: mixed calls while one process after the other is restarted; twenty minutes with `--long`.

Every answer is compared with what was asked: a text of its own, a document by a word that no other one has,
results that repeat the query.
"""

from __future__ import annotations

import asyncio
import json
import random
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import psutil

from searchbus_bus import connect
from searchbus_contracts import Actor
from searchbus_contracts.document_ids import document_id
from searchbus_contracts.retrieval import Chunk, IngestReply, IngestRequest, NewDocument
from searchbus_testing import serve
from tests.fakes.ddg import FakeDuckDuckGo

from .client import Client, Outcome
from .fleet import Fleet, monitor, rss_mib
from .scorecard import Measurement, at_most

__all__ = ["soak"]

DOCUMENTS = 30
RATE_PER_S = 30.0
ATTEMPTS = 40
LONG_S = 600.0


async def soak(folder: Path, *, short: bool, seconds: float = 0.0) -> list[Measurement]:
    """Calls of four kinds; kill -9 and SIGTERM in turn, and NATS killed now and then."""
    seconds = seconds or (20.0 if short else 45.0)
    ddg = FakeDuckDuckGo(latency_s=0.02)
    async with serve(ddg.app) as url, Fleet(folder, data_dir=folder / "data") as fleet:
        edge = await fleet.edge()
        restarts = _Restarts(fleet, url)
        await fleet.ready(workers=2)
        await fleet.ready("search_fomc")
        await fleet.ready("web_search")
        await _ingest(fleet)
        async with Client(fleet.ports) as client:
            mixed = _Mixed(client)
            await mixed.run(seconds / 10)  # warms up
            before, mixed.outcomes = _left(fleet, edge), Counter()
            memory_mib, calls = rss_mib(edge.pid), mixed.calls
            restarting = asyncio.create_task(restarts.run(every_s=min(30.0, seconds / 8)))
            await mixed.run(seconds)
            restarting.cancel()
            await asyncio.gather(restarting, return_exceptions=True)
            await fleet.ready(workers=2)
        give_up_s = time.monotonic() + 30
        while (more := _more(before, _left(fleet, edge))) and time.monotonic() < give_up_s:
            await asyncio.sleep(1)
        added_mib = (rss_mib(edge.pid) - memory_mib) * 10_000 / (mixed.calls - calls)
    found = mixed.outcomes
    memory = at_most("soak", "memory added to the edge by 10,000 calls", added_mib, 1, "MiB")
    return [
        at_most("soak", "silent or untyped calls", found["silent"] + found["lost"], 0),
        at_most("soak", "wrong answers", found["wrong"], 0),
        at_most("soak", "failed, though the client tried for some seconds",
                100 * (found["error"] + found["refused"]) / found.total(), 1, "%"),
        *([memory] if seconds >= LONG_S else []),  # else it has not even warmed up
        at_most("soak", "descriptors, subscriptions and consumers more than before", more, 0),
    ]  # fmt: skip


class _Restarts:
    """Starts the services, and ends one of them in turn."""

    def __init__(self, fleet: Fleet, ddg_url: str) -> None:
        self._fleet = fleet
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

    async def run(self, *, every_s: float) -> None:
        """Restart one after the other until it is cancelled; NATS after each round."""
        while True:
            await asyncio.sleep(every_s)
            place = self.count % (len(self._starts) + 1)
            kind = signal.SIGKILL if self.count % 2 else signal.SIGTERM
            self.count += 1
            if place == len(self._starts):
                (server,) = self._fleet.nats
                await asyncio.to_thread(server.stop)
                await asyncio.to_thread(server.start)
                continue
            process = self._running[place]
            process.send_signal(kind)
            await asyncio.to_thread(process.wait)
            self._running[place] = self._starts[place]()


class _Mixed:
    """Sends calls of four kinds and judges their answers."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._chance = random.Random(11)
        self.outcomes: Counter[str] = Counter()
        self.calls = 0

    async def run(self, seconds: float) -> None:
        """At an even rate."""
        tasks: set[asyncio.Task[None]] = set()
        start_s = time.monotonic()
        number = 0
        while (due_s := number / RATE_PER_S) < seconds:
            await asyncio.sleep(max(0.0, start_s + due_s - time.monotonic()))
            task = asyncio.create_task(self._one())
            tasks.add(task)
            task.add_done_callback(tasks.discard)
            number += 1
        await asyncio.gather(*tasks)

    async def _one(self) -> None:
        self.calls += 1
        kind = self._chance.random()
        number = self._chance.randrange(DOCUMENTS)
        if kind < 0.5:
            outcome = await self._client.echo(
                attempts=ATTEMPTS, wait_ms=self._chance.choice((0, 50))
            )
        elif kind < 0.7:
            outcome = await self._call(
                "search_fomc", {"query": _word(number), "top_k": 1}, _word(number)
            )
        elif kind < 0.9:
            key = {"document_id": document_id("fomc", f"d{number}")}
            outcome = await self._call("get_document", key, _text(number))
        else:
            query = f"soak {self._chance.randrange(10**9)}"
            outcome = await self._call("web_search", {"query": query}, query)
        self.outcomes[outcome.kind] += 1

    async def _call(self, tool: str, arguments: dict[str, object], expected: str) -> Outcome:
        found = await self._client.call(tool, arguments, attempts=ATTEMPTS, deadline_s=45)
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


def _left(fleet: Fleet, edge: subprocess.Popen[bytes]) -> list[int]:
    """Descriptors of the edge, subscriptions and consumers of NATS."""
    (port,) = fleet.monitors()
    return [
        psutil.Process(edge.pid).num_fds(),
        monitor(port, "subsz")["num_subscriptions"],
        int(monitor(port, "jsz").get("consumers", 0)),
    ]


def _more(before: list[int], after: list[int]) -> int:
    return sum(max(0, b - a) for a, b in zip(before, after, strict=True))
