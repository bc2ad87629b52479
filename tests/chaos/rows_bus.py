"""Rows 4, 10 and 22, and their part of 5: NATS that ends, a cluster that loses a server, bad messages."""

from __future__ import annotations

import asyncio
import random
import signal
import statistics
import time
from functools import partial
from pathlib import Path

import nats

from .client import Client, Outcome, counts
from .fleet import READY_S, Fleet, monitor, rss_mib
from .rows_workers import silent
from .scorecard import Measurement, at_most
from .worker import LONG_MS, TIMEOUT_MS


async def restarted(folder: Path, *, short: bool) -> list[Measurement]:
    """NATS killed under load and started again after a second; clients try for ten seconds."""
    rate_per_s = 40 if short else 100
    async with Fleet(folder) as fleet:
        await fleet.edge()
        for _ in range(2):
            fleet.start("tests.chaos.worker")
        await fleet.ready(workers=2)
        (server,) = fleet.nats
        async with Client(fleet.ports, short=short) as client:
            await client.load(rate_per_s=rate_per_s, seconds=1)
            loading = asyncio.create_task(
                client.load(rate_per_s=rate_per_s, seconds=8, attempts=100)
            )
            await asyncio.sleep(2)
            await asyncio.to_thread(server.stop)
            await asyncio.sleep(1)
            await asyncio.to_thread(server.start)
            back_s = time.monotonic()
            outcomes = await loading
    after = [o.started_s + o.took_s - back_s for o in outcomes if o.kind == "answer"]
    first_s = min((end_s for end_s in after if end_s > 0), default=60.0)
    return [
        at_most("4", "first answer after NATS is back", first_s, 1, "s"),
        at_most(
            "4", f"failed of {len(outcomes)} calls with retries", counts(outcomes)["failed"], 0
        ),
        silent("4", outcomes),
    ]


async def malformed(folder: Path, *, short: bool) -> list[Measurement]:
    """Malformed messages to every kind of subject; each that has a reply subject is answered."""
    count = 3_000 if short else 10_000
    chance = random.Random(7)
    async with Fleet(folder, log_level="error") as fleet:
        edge = await fleet.edge()
        worker = fleet.start("tests.chaos.worker")
        await fleet.ready(workers=1)
        bus = await nats.connect(fleet.nats_url)
        answered: set[str] = set()

        async def heard(message: object) -> None:
            answered.add(message.subject)  # type: ignore[attr-defined]

        inbox = bus.new_inbox()
        await bus.subscribe(f"{inbox}.*", cb=heard)

        async def send(first: int, number: int) -> set[str]:
            replies = set()
            for position in range(first, first + number):
                body = _malformed(chance)
                if position % 4 == 3:  # events and controls have no reply
                    subject = chance.choice(("sb.v1.evt.catalog", "sb.v1.ctl.cancel.chaos"))
                    await bus.publish(subject, body)
                    continue
                reply = f"{inbox}.{position}"
                replies.add(reply)
                headers = {"Req-Id": "x" * chance.randrange(1, 40), "Timeout-Ms": "soon"}
                await bus.publish("sb.v1.tool.chaos.echo", body, reply=reply,
                                  headers=headers if position % 2 else None)  # fmt: skip
                if position % 100 == 0:
                    await bus.flush()
            await bus.flush()
            return replies

        async def all_answered(replies: set[str]) -> int:
            give_up_s = time.monotonic() + READY_S
            while not replies <= answered and time.monotonic() < give_up_s:
                await asyncio.sleep(0.1)
            return len(replies - answered)

        await all_answered(await send(0, 1_000))
        before = [rss_mib(p.pid) for p in (edge, worker)]
        missing = await all_answered(await send(1_000, count))
        grown = max(rss_mib(p.pid) - b for p, b in zip((edge, worker), before, strict=True))
        async with Client(fleet.ports, short=short) as client:
            alive = counts(await client.load(rate_per_s=20, seconds=1, attempts=5))["failed"]
        dead = sum(process.poll() is not None for process in (edge, worker))
        await bus.close()
    return [
        at_most("10", f"without a reply of {count} malformed messages", missing, 0),
        at_most("10", "processes that ended, and calls that failed afterwards", dead + alive, 0),
        at_most("10", "memory added, of edge or worker", grown, 5, "MiB"),
    ]


def _malformed(chance: random.Random) -> bytes:
    return chance.choice(
        (
            b"", b"{", b"[]", b"null", b'{"tool":', b"[" * 2_000, b"\xff\xfe\x00",
            b'{"arguments": {"text": "' + b"\xc3\x28" + b'"}}', b'{"tool": 1, "arguments": []}',
            chance.randbytes(chance.randrange(1, 600)), b'{"tool":"echo","arguments":"no"}',
        )
    )  # fmt: skip


async def cluster_loses_a_server(
    folder: Path, *, short: bool, away_s: float = 0.0
) -> list[Measurement]:
    """Three NATS servers; the one with the limiter's bucket is killed, later frozen, for a while."""
    away_s = away_s or (8.0 if short else 30.0)
    rate = 100.0
    settings = {"call_rate_per_s": 1_000, "call_burst": 2_000}
    found = []
    async with Fleet(folder, cluster=3, **settings) as fleet:
        # The short form also runs on busy machines: nothing may fail there for want of time.
        timeout_ms = LONG_MS if short else TIMEOUT_MS
        for _ in range(2):
            await fleet.edge()
            fleet.start("tests.chaos.worker", chaos_timeout_ms=timeout_ms)
        await fleet.ready(workers=2)
        async with Client(fleet.ports, short=short) as client:
            load = partial(client.load, rate_per_s=rate, deadline_s=timeout_ms / 1000)
            await load(seconds=2)
            before = await load(seconds=4)
            for how in ("killed", "frozen"):
                # A bucket that could not be made at the start is made by a later call.
                give_up_s = time.monotonic() + READY_S
                while (lost := _leader(fleet)) is None:
                    assert time.monotonic() < give_up_s, "no server leads a bucket of the limiter"
                    await load(seconds=1)
                server = fleet.nats[lost]
                assert server.process is not None
                if how == "killed":
                    await asyncio.to_thread(server.stop)
                else:
                    server.process.send_signal(signal.SIGSTOP)
                lost_s = time.monotonic()
                during = await load(seconds=away_s)
                if how == "killed":
                    await asyncio.to_thread(server.start)
                else:
                    server.process.send_signal(signal.SIGCONT)
                after = await load(seconds=3)
                found += _around(how, lost_s, before, during, after, settled_s=6 if short else 2)
    return found


def _around(
    how: str, lost_s: float, before: list[Outcome], during: list[Outcome], after: list[Outcome],
    *, settled_s: float,
) -> list[Measurement]:  # fmt: skip
    settled = [o for o in during if o.started_s > lost_s + settled_s]
    ratio = _p50_s(settled) / _p50_s(before)
    counted = [*during, *after]
    return [
        at_most("22", f"untyped of {len(counted)} calls around a server that was {how}",
                counts(counted)["broken"], 0),
        at_most("22", f"p50 of limited callers from {settled_s} s after a server was {how}", ratio, 2,
                "× before"),
        at_most("22", f"failed of {len(counted)} read-only calls around a server that was {how}",
                counts(counted)["failed"], 0),
    ]  # fmt: skip


def _p50_s(outcomes: list[Outcome]) -> float:
    return statistics.median(o.took_s for o in outcomes) if outcomes else 60.0


def _leader(fleet: Fleet) -> int | None:
    """The number of the server that leads a bucket of the limiter; None while there is none."""
    for port in fleet.monitors():
        page = monitor(port, "jsz?streams=true")
        streams = [s for a in page.get("account_details", []) for s in a.get("stream_detail", [])]
        for stream in streams:
            leader = stream.get("cluster", {}).get("leader")
            if leader and "limit" in stream["name"].lower():
                return int(leader.removeprefix("n"))
    return None
