"""Faults of TCP between edge and NATS, between a worker and NATS, and between client and edge.

Connections are cut, stall, pass only one way, or become slow: those to NATS for longer than the deadline of a
call, those of a client for less, since the edge can say nothing to a client that it does not reach.
"""

from __future__ import annotations

import asyncio
import time
from contextlib import AsyncExitStack
from pathlib import Path

from .client import Client, Outcome, counts
from .fleet import Fleet
from .proxy import Fault, Proxy
from .scorecard import Measurement, at_most
from .worker import TIMEOUT_MS

RATE_PER_S = 20.0
ATTEMPTS = 400
"""Of a call that may be tried until the fault has ended, and everything has connected again."""
LINKS = ("edge to NATS", "worker to NATS", "client to edge")
_CLIENT_S = 2.0
FAULTS = (Fault.CUT, Fault.STALL, Fault.HALF_OPEN, Fault.SLOW)
_SHORT = dict(zip(LINKS, (Fault.STALL, Fault.HALF_OPEN, Fault.CUT), strict=True))


async def network(folder: Path, *, short: bool) -> list[Measurement]:
    """Each fault on each connection: what becomes of the calls meanwhile, and of those afterwards."""
    lasts_s = 1.0 if short else 1.5 * TIMEOUT_MS / 1000
    found: list[Measurement] = []
    async with Fleet(folder) as fleet, AsyncExitStack() as proxies:
        (server,) = fleet.nats
        to_nats = [await proxies.enter_async_context(Proxy(server.port)) for _ in range(2)]
        await fleet.edge(nats_url=f"nats://127.0.0.1:{to_nats[0].port}")
        fleet.start("tests.chaos.worker", nats_url=f"nats://127.0.0.1:{to_nats[1].port}")
        fleet.start("tests.chaos.worker")
        await fleet.ready(workers=2)
        to_edge = await proxies.enter_async_context(Proxy(fleet.ports[0]))
        for link, proxy in zip(LINKS, (*to_nats, to_edge), strict=True):
            for fault in (_SHORT[link],) if short else FAULTS:
                found += await _disturbed(fleet, link, proxy, fault, lasts_s, short=short)
    return found


async def _disturbed(
    fleet: Fleet, link: str, proxy: Proxy, fault: Fault, lasts_s: float, *, short: bool
) -> list[Measurement]:
    name = f"{link}, {fault.value}"
    if link == "client to edge":
        async with Client([proxy.port], short=short) as client:
            calls = await _around(client, proxy, fault, min(_CLIENT_S, lasts_s), attempts=ATTEMPTS)
        async with Client(fleet.ports) as client:
            running = await _still_running(client)
        return [
            at_most("TCP", f"{name}: without their answer of {len(calls)} calls that are tried again",
                    counts(calls)["failed"], 0),
            at_most("TCP", f"{name}: calls that still run", running, 0),
        ]  # fmt: skip
    async with Client(fleet.ports, short=short) as client:
        calls = await _around(client, proxy, fault, lasts_s, attempts=1)
        after = await client.load(rate_per_s=RATE_PER_S, seconds=0.5, attempts=ATTEMPTS)
    found = counts(calls)
    return [
        at_most("TCP", f"{name}: silent, late, untyped or wrong of {len(calls)} calls",
                found["broken"] + found["refused"], 0),
        at_most("TCP", f"{name}: failed of {len(after)} calls afterwards", counts(after)["failed"], 0),
    ]  # fmt: skip


async def _around(
    client: Client, proxy: Proxy, fault: Fault, lasts_s: float, *, attempts: int
) -> list[Outcome]:
    """Calls before, during and after a fault."""
    await client.load(rate_per_s=RATE_PER_S, seconds=0.3)
    calls = client.load(rate_per_s=RATE_PER_S, seconds=lasts_s + 1, attempts=attempts, wait_ms=20)
    calling = asyncio.create_task(calls)
    await asyncio.sleep(0.5)
    proxy.fault = fault
    await asyncio.sleep(lasts_s)
    proxy.fault = Fault.NONE
    return await calling


async def _still_running(client: Client) -> int:
    """Calls of echo that some worker still handles when their clients have gone for long."""
    give_up_s = time.monotonic() + 30
    running = 1
    while running and time.monotonic() < give_up_s:
        states = [await client.call("state", {}) for _ in range(8)]  # whichever worker answers
        running = sum(int(s.text.split()[0]) if s.kind == "answer" else 1 for s in states)
    return running
