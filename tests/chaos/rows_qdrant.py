"""Row 33: a Qdrant server that stops, goes on, is killed and started again, under 20 searches a second."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Callable
from pathlib import Path

from searchbus_fakes.ddg import FakeDuckDuckGo
from searchbus_testing import serve

from ..integration.qdrant import QdrantServer, qdrant_binary
from .client import Client, Outcome
from .fleet import Fleet
from .rows_lost import ingest
from .rows_workers import silent
from .scorecard import Measurement, at_most, left_out

ROW = "33"
RATE_PER_S = 20.0
AWAY_S = 6.0
KNOWN_S = 2.0
"""From then on the server is known to be away."""


async def qdrant(folder: Path, *, short: bool) -> list[Measurement]:
    """What searches of documents and of everything get, and when they are answered again."""
    if qdrant_binary() is None:
        return [left_out(ROW, "Qdrant is away", "there is no qdrant program")]
    measured: list[Measurement] = []
    server = QdrantServer(folder / "qdrant")
    await asyncio.to_thread(server.start)
    try:
        async with serve(FakeDuckDuckGo().app) as url, Fleet(folder) as fleet:
            await fleet.edge()
            fleet.start("searchbus_retrieval", qdrant_url=server.url)
            fleet.start("searchbus_web")
            await fleet.scrapers(url, 1)
            await fleet.ready("search_fomc", service="retrieval", workers=1)
            await fleet.ready("web_extract_content", service="web", workers=1)
            await ingest(fleet)
            async with Client(fleet.ports, short=short) as client:
                assert (await client.call("search", {"query": "whales"})).kind == "answer"
                for how, leave, come_back in (
                    ("stopped", server.freeze, server.thaw),
                    ("killed", server.kill, lambda: server.start(wait=True)),
                ):
                    measured += await _around(client, how, leave, come_back)
    finally:
        await asyncio.to_thread(server.kill)
    return measured


async def _around(
    client: Client, how: str, leave: Callable[[], None], come_back: Callable[[], None]
) -> list[Measurement]:
    left_s = time.monotonic()
    leave()
    during = await _searches(client, AWAY_S)
    await asyncio.to_thread(come_back)
    back_s = time.monotonic()
    after = [o for o in await _searches(client, 4.0) if o[0] == "search_fomc"]
    documents = [o for tool, o in during if tool == "search_fomc"]
    known = [o for o in documents if o.started_s > left_s + KNOWN_S]
    everything = [o for tool, o in during if tool == "search"]
    unnamed = [o for o in known if o.kind != "error" or "Qdrant" not in o.text]
    answered_s = [o.started_s + o.took_s - back_s for _, o in after if o.kind == "answer"]
    return [
        at_most(ROW, f"{how}: searches of documents that do not name the server, of {len(known)}",
                len(unnamed), 0),
        at_most(ROW, f"{how}: slowest of these", max(o.took_s for o in known), 2, "s"),
        at_most(ROW, f"{how}: slowest search of documents", max(o.took_s for o in documents), 2,
                "s"),
        at_most(ROW, f"{how}: failed of {len(everything)} searches of all sources",
                sum(o.kind != "answer" for o in everything), 0),
        at_most(ROW, f"{how}: slowest search of all sources",
                max(o.took_s for o in everything), 3, "s"),
        at_most(ROW, f"{how}: first answer once it is back", min(answered_s, default=60.0), 2, "s"),
        silent(ROW, [o for _, o in during]),
    ]  # fmt: skip


async def _searches(client: Client, seconds: float) -> list[tuple[str, Outcome]]:
    """At an even rate, of documents and of all sources in turn."""
    tools = itertools.cycle(("search_fomc", "search"))
    started_s, tasks, names = time.monotonic(), [], []
    for number, tool in zip(range(round(RATE_PER_S * seconds)), tools, strict=False):
        await asyncio.sleep(max(0.0, started_s + number / RATE_PER_S - time.monotonic()))
        names.append(tool)
        tasks.append(asyncio.create_task(client.call(tool, {"query": "whales"})))
    return list(zip(names, await asyncio.gather(*tasks), strict=True))
