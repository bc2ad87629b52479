"""Two regions with 40 ms between them, a worker in each, and a link that swallows what is sent over it."""

from __future__ import annotations

import asyncio
import time
from functools import partial
from pathlib import Path

from .client import Client, Outcome, counts
from .fleet import READY_S, Fleet
from .proxy import Fault
from .regions import Regions
from .scorecard import Measurement, at_most
from .worker import LONG_MS, TIMEOUT_MS

RATE_PER_S = 20.0
TYPED_S = 6.1
HEALED_S = 5.0


async def regions(folder: Path, *, short: bool) -> list[Measurement]:
    """The edge is in the east. The link is cut with a worker there, and without one."""
    # A busy machine notices a dead link later.
    away_s, settled_s = (13.0, 10.0) if short else (60.0, TYPED_S)
    async with Regions(folder / "nats") as both, Fleet(folder, cluster=0) as fleet:
        fleet.nats += both.east
        await fleet.edge()
        # The short form also runs on busy machines: nothing may fail there for want of time.
        timeout_ms = LONG_MS if short else TIMEOUT_MS
        near = fleet.start("tests.chaos.worker", chaos_timeout_ms=timeout_ms)
        west = ",".join(server.url for server in both.west)
        fleet.start("tests.chaos.worker", chaos_timeout_ms=timeout_ms, nats_url=west)
        await fleet.ready(workers=2)
        async with Client(fleet.ports, short=short) as client:
            load = partial(client.load, rate_per_s=RATE_PER_S, deadline_s=timeout_ms / 1000)
            both.cut(Fault.STALL)
            local = await load(seconds=6.0 if short else away_s)
            both.cut(Fault.NONE)
            await _healed(client)
            await fleet.ready(workers=2)

            near.terminate()
            await asyncio.to_thread(near.wait, READY_S)
            # A worker that stops says so, and finishes what it has.
            remote = await load(seconds=5)

            both.cut(Fault.STALL)
            nobody = await client.load(rate_per_s=RATE_PER_S, seconds=away_s)
            both.cut(Fault.NONE)
            healed_s = await _healed(client)
            after = await load(seconds=2)
    typed = [o for o in nobody if (o.kind, o.code) == ("error", "unavailable")]
    late = [o for o in nobody if o.started_s > nobody[0].started_s + settled_s]
    return [
        at_most("regions", f"failed of {len(local)} calls with a worker in this region, link cut",
                counts(local)["failed"], 0),
        at_most("regions", f"failed of {len(remote)} calls with workers in the other region alone",
                counts(remote)["failed"], 0),
        at_most("regions", f"untyped of {len(nobody)} calls without a worker here, link cut",
                counts(nobody)["broken"] + counts(nobody)["refused"], 0),
        at_most("regions", f"other than unavailable of {len(late)} calls from {settled_s} s after the cut",
                len(set(late) - set(typed)), 0),
        at_most("regions", "longest of these calls", max(o.took_s for o in nobody), TYPED_S, "s"),
        at_most("regions", "until the first answer after the link was healed", healed_s, HEALED_S, "s"),
        at_most("regions", f"failed of {len(after)} calls afterwards", counts(after)["failed"], 0),
    ]  # fmt: skip


async def _healed(client: Client) -> float:
    """Seconds until a call is answered."""
    started_s = time.monotonic()
    outcome: Outcome | None = None
    while outcome is None or outcome.kind != "answer":
        assert time.monotonic() < started_s + READY_S, outcome
        outcome = await client.echo()
        await asyncio.sleep(0.05)
    return time.monotonic() - started_s
