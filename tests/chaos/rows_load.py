"""Rows 6, 9, 11, 17 and 28: overload, large documents, clients that leave, what is left behind,
many large answers at once.
"""

from __future__ import annotations

import asyncio
import http.client
import json
import random
import re
import statistics
import threading
import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import psutil

from searchbus_bus import connect
from searchbus_contracts import Actor
from searchbus_contracts.ingest import Chunk, IngestReply, IngestRequest, NewDocument, document_id

from .client import Client, Outcome, counts
from .fleet import READY_S, Fleet, monitor, rss_mib
from .scorecard import Measurement, at_least, at_most
from .worker import LONG_MS

OPERATOR = Actor(subject="chaos", roles=("*",))
LARGE_AT_ONCE, LARGE_BYTES = 100, 5_000_000


async def overloaded(folder: Path, *, short: bool) -> list[Measurement]:
    """One and a half times what two workers can do; the rest is refused."""
    slots, wait_ms, seconds = 4, 100, 2 if short else 12
    async with Fleet(folder) as fleet:
        await fleet.edge()
        for _ in range(2):
            fleet.start("tests.chaos.worker", chaos_slots=slots)
        await fleet.ready(workers=2)
        capacity_per_s = 2 * slots * 1000 / wait_ms
        async with Client(fleet.ports) as client:
            await client.load(rate_per_s=20, seconds=1)
            outcomes = await client.load(
                rate_per_s=1.5 * capacity_per_s, seconds=seconds, wait_ms=wait_ms
            )
    answers = [o for o in outcomes if o.kind == "answer"]
    shed = [o for o in outcomes if o.kind != "answer"]
    at_once = sum(o.code in ("overloaded", "unavailable") and o.took_s < 2 for o in shed)
    return [
        at_least("6", "answered at 1.5 times the capacity",
                 100 * len(answers) / (capacity_per_s * seconds), 90, "% of capacity"),
        at_least("6", "refused calls that are answered at once",
                 100 * at_once / max(1, len(shed)), 100, "%"),
    ]  # fmt: skip


async def documents(folder: Path, *, short: bool) -> list[Measurement]:
    """Large documents, byte by byte; one that is too large; the time of 5 MiB."""
    sizes_mib = (0.9, 1.0, 5.0) if short else (0.9, 1.0, 5.0, 16.0)
    async with Fleet(folder, data_dir=folder / "data") as fleet:
        await fleet.edge()
        fleet.start("searchbus_retrieval")
        await fleet.ready("get_document")
        bus = await connect(fleet.nats_url, name="chaos-ingest")
        texts = {size: _text(int(size * 2**20)) for size in (*sizes_mib, 17.0)}
        outcomes = {}
        for size, text in texts.items():
            reply = await bus.request(
                bus.subjects.endpoint("retrieval", "ingest"),
                IngestRequest(collection="fomc", documents=(_document(size, text),)),
                IngestReply, service="retrieval", timeout_s=120, actor=OPERATOR,
            )  # fmt: skip
            outcomes[size] = reply.results[0]
        await bus.close()
        async with Client(fleet.ports) as client:
            exact = 0
            for size in sizes_mib:
                found = await _get(client, size)
                exact += _same(found, texts[size])
            five = {"document_id": document_id("fomc", "d5.0")}
            times_ms = []
            for _ in range(5 if short else 11):
                took_s, text = await asyncio.to_thread(
                    client.time_to_last_byte, "get_document", five
                )
                times_ms.append(1000 * took_s)
                assert _full_text(text) == texts[5.0]
    refused = outcomes[17.0].outcome == "refused" and "16 MiB" in (outcomes[17.0].reason or "")
    return [
        at_least(
            "9", f"documents of up to {sizes_mib[-1]:g} MiB byte-exact", exact, len(sizes_mib)
        ),
        at_least("9", "document of 17 MiB refused with the reason", int(refused), 1),
        at_most("9", "p50 of 5 MiB, to the last byte", statistics.median(times_ms), 100, "ms"),
    ]


async def _get(client: Client, size: float) -> Outcome:
    key = document_id("fomc", f"d{size}")
    return await client.call("get_document", {"document_id": key}, deadline_s=60)


def _same(found: Outcome, text: str) -> bool:
    if found.kind != "answer":
        return False
    return _full_text(found.text) == text


def _full_text(answer: str) -> str:
    return str(json.loads(answer)["full_text"])


def _text(size_bytes: int) -> str:
    chance = random.Random(size_bytes)
    words = [f"whale{number}" for number in range(997)] + ["é", "鯨"]
    text = " ".join(chance.choices(words, k=size_bytes // 8 + 100))
    return text.encode()[:size_bytes].decode(errors="ignore")


def _document(size: float, text: str) -> NewDocument:
    step = 400_000  # few passages: their embedding is not the point
    chunks = tuple(
        Chunk(start=start, end=min(start + 1000, len(text))) for start in range(0, len(text), step)
    )
    return NewDocument(document_id=document_id("fomc", f"d{size}"), title=f"{size} MiB",
                       text=text, chunks=chunks, metadata={"date": "2024-01-31"})  # fmt: skip


async def disconnected(folder: Path, *, short: bool) -> list[Measurement]:
    """Clients leave 100 ms after they called; 200 ms later no worker works for them."""
    clients = 20
    async with Fleet(folder) as fleet:
        await fleet.edge()
        fleet.start("tests.chaos.worker")
        fakes = await fleet.fakes()
        await fleet.ready(workers=1)
        async with Client(fleet.ports) as client:
            await client.load(rate_per_s=50, seconds=1)
            calls = [
                asyncio.create_task(client.call("linger", {}, deadline_s=LONG_MS / 1000))
                for _ in range(clients)
            ]
            busy_before = await _running(client, clients, 40.0 if short else 0.1)
            for call in calls:
                call.cancel()
            await asyncio.gather(*calls, return_exceptions=True)
            # Well before the calls would end by themselves.
            busy = await _running(client, 0, 40.0 if short else 0.2)
        aborted = await _upstream_calls_left(fleet, fakes, 15.0 if short else 1.0)
    return [
        at_least("11", "calls that ran before the clients left", busy_before, clients),
        at_most("11", "still running 200 ms after they left", busy, 0),
        at_most("11", "upstream requests still open 1 s after the client left", aborted, 0),
    ]


async def _running(client: Client, wanted: int, within_s: float) -> int:
    """Calls that run, once there are as many as wanted, or after a time."""
    end_s = time.monotonic() + within_s
    while True:
        await asyncio.sleep(0.1)
        found = await client.call("state", {})
        running = int(found.text.split()[0]) if found.kind == "answer" else 10_000
        if running == wanted or time.monotonic() > end_s:
            return running


async def _upstream_calls_left(fleet: Fleet, fakes: dict[str, object], within_s: float) -> int:
    """Requests that the fake DuckDuckGo still serves after their client left; 10,000 where none
    was made.
    """
    url = f"{fakes['ddg']}/_fake"
    environment = {
        key.removeprefix("SEARCHBUS_").lower(): value
        for key, value in dict(fakes["environment"]).items()  # type: ignore[call-overload]
    }
    fleet.start("searchbus_ddg", **environment)
    await fleet.ready("web_search")
    async with httpx.AsyncClient(trust_env=False) as control, Client(fleet.ports) as client:
        await control.post(url, json={"latency_s": 25.0})
        call = asyncio.create_task(client.call("web_search", {"query": "whales"}))
        give_up_s = time.monotonic() + 60
        while time.monotonic() < give_up_s:
            found = (await control.get(url)).json()
            if found["in_flight"]:
                break
            await asyncio.sleep(0.05)
        else:
            return 10_000
        call.cancel()
        left_until_s = time.monotonic() + within_s
        while True:
            await asyncio.sleep(0.1)
            left = int((await control.get(url)).json()["in_flight"])
            if not left or time.monotonic() > left_until_s:
                return left


async def nothing_left(folder: Path, *, short: bool) -> list[Measurement]:
    """Mixed requests: good, wrong, unknown, slow, abandoned. What do they leave behind?"""
    batch, warm = (800, 2) if short else (5_000, 3)
    async with Fleet(folder, log_level="error") as fleet:
        edge = await fleet.edge()
        worker = fleet.start("tests.chaos.worker")
        await fleet.ready(workers=1)
        pids = (edge.pid, worker.pid)
        for number in range(warm):
            await _mixed(fleet, batch, seed=number)
        await asyncio.sleep(2)
        before, first = [rss_mib(pid) for pid in pids], await _left(fleet, pids)
        await _mixed(fleet, batch, seed=warm)
        give_up_s = time.monotonic() + (60 if short else 10)
        while (more := _more(first, await _left(fleet, pids))) and time.monotonic() < give_up_s:
            await asyncio.sleep(0.5)
        added = max(rss_mib(pid) - b for pid, b in zip(pids, before, strict=True))
    return [
        at_most("17", "memory added by 10,000 mixed requests", added * 10_000 / batch, 1, "MiB"),
        at_most("17", "tasks, descriptors and subscriptions more than before", more, 0),
    ]


def _more(first: Sequence[int], last: Sequence[int]) -> int:
    return sum(max(0, b - a) for a, b in zip(first, last, strict=True))


async def _mixed(fleet: Fleet, count: int, *, seed: int) -> None:
    chance = random.Random(seed)
    slots = asyncio.Semaphore(32)

    async def one(client: Client) -> None:
        async with slots:
            kind = chance.random()
            if kind < 0.6:
                await client.echo()
            elif kind < 0.7:
                await client.call("echo", {"text": 5})
            elif kind < 0.8:
                await client.call("no_such_tool", {})
            elif kind < 0.9:
                await client.echo(wait_ms=20)
            else:
                call = asyncio.create_task(client.echo(wait_ms=500))
                await asyncio.sleep(0.01)
                call.cancel()
                await asyncio.gather(call, return_exceptions=True)

    async with Client(fleet.ports) as client:
        await asyncio.gather(*(one(client) for _ in range(count)))


async def _left(fleet: Fleet, pids: Sequence[int]) -> list[int]:
    """Tasks of the worker, descriptors of both, subscriptions of NATS."""
    async with Client(fleet.ports) as client:
        state = await client.call("state", {})
    tasks = int(state.text.split()[1]) if state.kind == "answer" else 10_000
    subscriptions = monitor(fleet.monitors()[0], "subsz")["num_subscriptions"]
    return [tasks, *(psutil.Process(pid).num_fds() for pid in pids), subscriptions]


async def large_answers(folder: Path, *, short: bool) -> list[Measurement]:
    """A hundred answers of 5 MB at once, over MCP and over plain HTTP, beside calls of others.

    The edge has passed one such answer on before, so that it knows the usual size.
    """
    found: list[Measurement] = []
    async with Fleet(folder) as fleet:
        edge = await fleet.edge()
        # The short form also runs on busy machines: nothing may fail there for want of time.
        deadline = {"chaos_timeout_ms": LONG_MS} if short else {}
        for _ in range(2):
            fleet.start("tests.chaos.worker", **deadline)
        await fleet.ready("large", workers=2)
        alone = threading.Barrier(1)
        await asyncio.to_thread(_large_call, fleet.ports[0], "/mcp", alone)
        for path in ("/mcp", "/api/v1"):
            found += await _large_answers(fleet, edge.pid, path, short=short)
    return found


async def _large_answers(fleet: Fleet, pid: int, path: str, *, short: bool) -> list[Measurement]:
    port = fleet.ports[0]
    async with Client(fleet.ports, short=short) as others:
        await others.echo()
        load = asyncio.create_task(others.load(rate_per_s=50, seconds=4))
        with ThreadPoolExecutor(LARGE_AT_ONCE) as threads:
            started = threading.Barrier(LARGE_AT_ONCE)
            work = [
                asyncio.get_running_loop().run_in_executor(
                    threads, _large_call, port, path, started
                )
                for _ in range(LARGE_AT_ONCE)
            ]
            gathered = asyncio.gather(*work)
            most_mib = 0.0
            while not gathered.done():
                most_mib = max(most_mib, rss_mib(pid))
                await asyncio.sleep(0.02)
            outcomes = await gathered
        outcomes_of_others = await load
        small = counts(outcomes_of_others)
        why = Counter(
            f"{o.kind} {o.code}: {o.text}" for o in outcomes_of_others if o.kind != "answer"
        )
    refused_s = [took_s for outcome, took_s in outcomes if outcome == "overloaded"]
    ended = sum(outcome in ("answer", "overloaded") for outcome, _ in outcomes)
    about = f"of {LARGE_AT_ONCE} answers of 5 MB at once over {path}"
    return [
        at_least("28", f"answered or refused as overloaded {about}", ended, LARGE_AT_ONCE),
        at_least("28", f"answered {about}", sum(o == "answer" for o, _ in outcomes), 1),
        at_most("28", f"slowest refusal {about}", max(refused_s, default=0.0), 1, "s"),
        at_most(
            "28",
            f"failed of {len(outcomes_of_others)} small calls beside {path}{why or ''}",
            small["failed"],
            0,
        ),
        at_most("28", f"memory of the edge with {about[3:]}", most_mib, 300, "MiB"),
    ]


def _large_call(port: int, path: str, started: threading.Barrier) -> tuple[str, float]:
    """One call in a thread of its own, which decodes nothing: `answer`, or the code of its error,
    and the seconds that it took."""
    size = {"size_bytes": LARGE_BYTES}
    if path == "/mcp":
        params = {"name": "large", "arguments": size}
        message: dict[str, Any] = {"jsonrpc": "2.0", "id": 1, "method": "tools/call"}
        body = json.dumps({**message, "params": params})
    else:
        path, body = f"{path}/tools/large", json.dumps(size)
    headers = {"Content-Type": "application/json",
               "Accept": "application/json, text/event-stream"}  # fmt: skip
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=READY_S)
    started.wait()
    started_s = time.monotonic()
    try:
        connection.request("POST", path, body, headers)
        answer = connection.getresponse().read()
    except (OSError, http.client.HTTPException):
        return "lost", time.monotonic() - started_s
    finally:
        connection.close()
    took_s = time.monotonic() - started_s
    if len(answer) > LARGE_BYTES:
        return "answer", took_s
    code = re.search(rb'"code": ?"(\w+)"', answer)
    return (code[1].decode() if code else answer.decode(errors="replace")[:200]), took_s
