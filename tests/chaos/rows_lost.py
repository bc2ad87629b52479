"""Row 25: each shipped tool, while a worker of a service that it needs stands still or is killed.

A worker is stopped, so that it receives requests and does nothing; where it is to be killed, that follows while it
has them. No call finds its answer in a cache.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from searchbus_bus import connect
from searchbus_contracts import Actor
from searchbus_contracts.ingest import Chunk, IngestReply, IngestRequest, NewDocument, document_id
from searchbus_fakes.ddg import FakeDuckDuckGo
from searchbus_testing import serve

from .client import Client, Outcome, counts
from .fleet import ROOT, Fleet
from .rows_attach import qualified, toml
from .rows_workers import silent
from .scorecard import Measurement, at_most

PLAIN = ROOT / "services" / "attach" / "tests" / "programs" / "plain_server.py"
TEXT = "The Committee decided to lower the target range. Whales sing at night. " * 20
DOCUMENT = document_id("fomc", "d1")
KILLED_AFTER_S = 0.5
EACH = 2
"""Calls of each tool: one of two workers is lost, and may have any of them."""

Call = tuple[str, Callable[[], dict[str, Any]]]
_numbers = itertools.count()


def _query() -> dict[str, Any]:
    return {"query": f"whales {next(_numbers)}"}


def _page() -> str:
    return f"http://p{next(_numbers)}.example.org/page"


WEB: list[Call] = [
    *((tool, _query) for tool in ("web_search", "web_search_advanced", "web_search_news")),
    ("web_extract_content", lambda: {"urls": [_page()]}),
    ("search", _query),
    ("research_brief", lambda: {"question": f"Do whales sing {next(_numbers)}?"}),
]
DOCUMENTS: list[Call] = [
    ("search_fomc", _query),
    ("get_document", lambda: {"document_id": DOCUMENT}),
    ("search", _query),
    ("fetch", lambda: {"id": DOCUMENT}),
    ("verify_quote", lambda: {"id": DOCUMENT, "quote": "Whales sing at night."}),
    ("research_brief", lambda: {"question": f"Do whales sing {next(_numbers)}?"}),
]
OF_SERVICE: dict[str, list[Call]] = {
    "ddg": [("instant_answer", _query), ("ddg_web_search", _query), ("web_search", _query)],
    "web": WEB,
    "toolindex": [
        ("find_tools", _query),
        ("call_tool", lambda: {"name": "instant_answer", "arguments": _query()}),
    ],
    "retrieval": DOCUMENTS,
    "attach": [
        (qualified("good", "echo"), lambda: {"text": "x"}),
        (qualified("good", "environment"), lambda: {}),
    ],
}
ALONE = ("retrieval", "attach")
"""Services with one worker, as they are shipped: their callers get a typed error meanwhile."""


async def lost_workers(folder: Path, *, short: bool) -> list[Measurement]:
    """SIGSTOP and kill -9 of a worker of each service, with every tool that needs it."""
    shared: list[Outcome] = []
    alone: list[Outcome] = []
    ddg = FakeDuckDuckGo(latency_s=0.1)
    async with (
        serve(ddg.app) as url,
        Fleet(folder, data_dir=folder / "data", search="true") as fleet,
    ):
        starts = await _starts(fleet, url)
        running = {name: [start() for start in of_one] for name, of_one in starts.items()}
        await fleet.edge()
        for name, workers in running.items():
            tool = OF_SERVICE[name][0][0]
            await fleet.ready(tool, service=name, workers=len(workers))
        await ingest(fleet)
        async with Client(fleet.ports, short=short) as client:
            # What each worker does once only, it has done.
            await _call(client, [call for calls in OF_SERVICE.values() for call in calls], 2)
            for name, calls in OF_SERVICE.items():
                for how in (signal.SIGSTOP, signal.SIGKILL):
                    lost = running[name][0]
                    lost.send_signal(signal.SIGSTOP)
                    attempts = 1 if name in ALONE else 2
                    calling = asyncio.create_task(_call(client, calls * EACH, attempts))
                    if how == signal.SIGKILL:
                        await asyncio.sleep(KILLED_AFTER_S)
                        lost.kill()
                        outcomes = await calling
                        running[name][0] = starts[name][0]()
                    else:
                        outcomes = await calling
                        lost.send_signal(signal.SIGCONT)
                    (alone if name in ALONE else shared).extend(outcomes)
                    await fleet.ready(calls[0][0], service=name, workers=len(running[name]))
                    await asyncio.sleep(2)  # one that goes on answers pings again
    every = [*shared, *alone]
    return [
        at_most("25", f"failed of {len(shared)} calls, one of two workers of a service lost, one retry",
                counts(shared)["failed"], 0),
        at_most("25", f"slowest of {len(every)} calls, from the loss",
                max(o.took_s for o in every), 6, "s"),
        silent("25", every),
    ]  # fmt: skip


async def _starts(
    fleet: Fleet, ddg_url: str
) -> dict[str, list[Callable[[], subprocess.Popen[bytes]]]]:
    """For each service what starts its workers."""
    fakes = (await fleet.fakes())["environment"]
    given = {name.removeprefix("SEARCHBUS_").lower(): value for name, value in fakes.items()}
    given |= {
        "ddg_egress": json.dumps([f"bind:127.0.0.{11 + number}" for number in range(2)]),
        "ddg_html_url": f"{ddg_url}/html/", "ddg_lite_url": f"{ddg_url}/lite/",
        "ddg_instant_url": f"{ddg_url}/instant",
        "ddg_interval_s": 0.05, "ddg_min_interval_s": 0.02, "extract_robots": "false",
    }  # fmt: skip
    file = fleet.folder / "attach.toml"
    good = {"command": sys.executable, "args": ["-I", "-S", str(PLAIN)]}
    file.write_text(toml({"good": good | {"policy": "accept"}}))

    def scraper(number: int) -> Callable[[], subprocess.Popen[bytes]]:
        return lambda: fleet.start("searchbus_ddg", worker_index=number, **given)

    return {
        "ddg": [scraper(0), scraper(1)],
        "web": [lambda: fleet.start("searchbus_web", **given)] * 2,
        "toolindex": [lambda: fleet.start("searchbus_toolindex")] * 2,
        "retrieval": [lambda: fleet.start("searchbus_retrieval")],
        "attach": [lambda: fleet.start("searchbus_attach", attach_file=file)],
    }


async def _call(client: Client, calls: Sequence[Call], attempts: int) -> list[Outcome]:
    """Call all at once."""
    return await asyncio.gather(
        *(client.call(tool, arguments(), attempts=attempts) for tool, arguments in calls)
    )


async def ingest(fleet: Fleet) -> None:
    """Store a document about whales."""
    bus = await connect(fleet.nats_url, name="chaos-lost")
    document = NewDocument(
        document_id=DOCUMENT, title="About whales", text=TEXT,
        chunks=(Chunk(start=0, end=len(TEXT)),), metadata={"date": "2024-01-31"},
    )  # fmt: skip
    await bus.request(
        bus.subjects.endpoint("retrieval", "ingest"),
        IngestRequest(collection="fomc", documents=(document,)), IngestReply, service="retrieval",
        timeout_s=120, actor=Actor(subject="chaos", roles=("*",)),
    )  # fmt: skip
    await bus.close()
