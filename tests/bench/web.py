"""Web: a provider's limit under three times its load, and the cost of reading a page."""

from __future__ import annotations

import asyncio
import json
import time
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import msgspec

from searchbus_bus import Bus, connect
from searchbus_contracts import Actor, Fault, ToolCall, ToolReply
from searchbus_fakes.web import PARAGRAPH, FakeWeb, article
from searchbus_testing import serve
from searchbus_web.extraction.reading import PageBytes, read_page

from .stack import nats, service

LIMIT_PER_S = 10
SECONDS = 30
REPLICAS = 2


async def run(reference: Path, workdir: Path) -> dict[str, Any]:
    """Share of wasted calls, share of the limit used, CPU milliseconds a page."""
    return {**await _storm(workdir / "web"), **_reading()}


async def _storm(folder: Path) -> dict[str, Any]:
    """Two replicas, a limit of 10 a second at Tavily, 30 questions a second for 30 seconds."""
    fake = FakeWeb(limit_per_s=LIMIT_PER_S)
    outcomes: dict[str, int] = {}
    async with AsyncExitStack() as exit_:
        url = await exit_.enter_async_context(nats(folder))
        upstream = await exit_.enter_async_context(serve(fake.app))
        for _ in range(REPLICAS):
            await exit_.enter_async_context(
                service(
                    "web", url, tavily_api_keys='["k"]', tavily_url=f"{upstream}/tavily",
                    tavily_rpm=str(LIMIT_PER_S * 60), max_in_flight="1000", web_cache_ttl_s="0",
                )
            )  # fmt: skip
        bus = await connect(url, name="bench")
        exit_.push_async_callback(bus.close)
        async with asyncio.timeout(60):
            while len(await bus.workers()) < REPLICAS:
                await asyncio.sleep(0.1)
        tasks = []
        for number in range(3 * LIMIT_PER_S * SECONDS):
            tasks.append(asyncio.create_task(_ask(bus, number, outcomes)))
            await asyncio.sleep(1 / (3 * LIMIT_PER_S))
        calls, refused = fake.calls["tavily"], fake.calls["tavily-429"]
        await asyncio.gather(*tasks)
    return {
        "storm: questions": sum(outcomes.values()),
        "storm: outcomes": dict(sorted(outcomes.items())),
        "storm: upstream calls": calls,
        "storm: wasted share": round(refused / calls, 4),
        "storm: used share of the limit": round((calls - refused) / (LIMIT_PER_S * SECONDS), 3),
    }


async def _ask(bus: Bus, number: int, outcomes: dict[str, int]) -> None:
    arguments = msgspec.Raw(json.dumps({"query": f"whales {number}"}).encode())
    try:
        await bus.request(
            bus.subjects.tool("web", "web_search"), ToolCall(tool="web_search", arguments=arguments),
            ToolReply, service="web", timeout_s=4.0, actor=Actor(roles=("*",)),
        )  # fmt: skip
        code = "ok"
    except Fault as fault:
        code = fault.code
    outcomes[code] = outcomes.get(code, 0) + 1


def _reading() -> dict[str, Any]:
    """Pages of about 170 KB, as real articles are: mostly markup around the text."""
    links = "".join(
        f'<li class="menu-item x{n}"><a href="/a/{n}">Item {n}</a></li>' for n in range(1500)
    )
    pages = [
        article(f"Page {n}", extra=f"<aside><ul>{links}</ul></aside>", text=PARAGRAPH * 10).encode()
        for n in range(20)
    ]
    read_page(PageBytes("http://a.org/", pages[0], "text/html"))
    started_s = time.process_time()
    for page in pages:
        read_page(PageBytes("http://a.org/", page, "text/html"))
    spent_s = time.process_time() - started_s
    return {
        "page KB": round(len(pages[0]) / 1000),
        "CPU ms a page": round(spent_s / len(pages) * 1000, 2),
    }
