"""Rows 7, 8, 21, 22 and 26: providers that refuse, that block an address, and servers that do harm."""

from __future__ import annotations

import asyncio
import json
import random
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import psutil

from searchbus_ddg.settings import DdgSettings
from searchbus_fakes.ddg import FakeDuckDuckGo
from searchbus_fakes.web import FakeWeb
from searchbus_testing import descendants, serve

from .client import Client, Outcome, counts
from .fleet import Fleet, monitor
from .scorecard import Measurement, at_least, at_most
from .upstreams import hostile

LIMIT_PER_S = 10.0


async def refused(folder: Path, *, short: bool) -> list[Measurement]:
    """Three times as many searches as the provider allows: how many of its refusals are provoked?"""
    seconds = 5.0 if short else 20.0
    web = FakeWeb(limit_per_s=LIMIT_PER_S)
    async with serve(web.app) as url, Fleet(folder) as fleet:
        await fleet.edge()
        fleet.start(
            "searchbus_web", tavily_api_keys='["key"]', tavily_url=f"{url}/tavily",
            tavily_rpm=60 * LIMIT_PER_S, web_providers='["tavily"]',
        )  # fmt: skip
        await fleet.ready("web_search")
        async with Client(fleet.ports, short=short) as client:
            calls = []
            for number in range(round(3 * LIMIT_PER_S * seconds)):
                calls.append(asyncio.create_task(
                    client.call("web_search", {"query": f"whales {number}"}, deadline_s=30)
                ))  # fmt: skip
                await asyncio.sleep(1 / (3 * LIMIT_PER_S))
            sent, provoked = web.calls["tavily"], web.calls["tavily-429"]
            outcomes = await asyncio.gather(*calls)
    found = counts(outcomes)
    used = 100 * (sent - provoked) / (LIMIT_PER_S * seconds)
    return [
        at_most("7", "requests that the provider refused", 100 * provoked / max(1, sent), 5, "%"),
        at_least("7", "used of the provider's limit, at 3 times as many searches", used, 85, "%"),
        at_most("7", f"silent, late, untyped or wrong of {len(outcomes)} searches",
                found["broken"], 0),
    ]  # fmt: skip


async def hangs(folder: Path, *, short: bool) -> list[Measurement]:
    """One of two search providers sends its answers without end; the other one fills the page."""
    web = FakeWeb()
    async with serve(web.app) as url, hostile() as address, Fleet(folder) as fleet:
        await fleet.edge()
        fleet.start("searchbus_web", tavily_api_keys='["key"]', tavily_url=f"{url}/tavily",
                    brave_api_keys='["key"]', brave_url=f"http://{address}/drip")  # fmt: skip
        await fleet.ready("web_search")
        async with Client(fleet.ports, short=short) as client:
            outcomes = [
                await client.call("web_search", {"query": f"whales {number}"})
                for number in range(20)
            ]
    took_s = [outcome.took_s for outcome in outcomes]
    unnamed = sum("brave failed" not in outcome.text for outcome in outcomes)
    return [
        at_most("hanging provider", f"failed of {len(outcomes)} searches",
                counts(outcomes)["failed"], 0),
        at_most("hanging provider", "answers that do not name it", unnamed, 0),
        at_most("hanging provider", "slowest search", max(took_s), 7, "s"),
        at_most("hanging provider", "searches after the first three", max(took_s[3:]), 1, "s"),
    ]  # fmt: skip


async def harmful(folder: Path, *, short: bool) -> list[Measurement]:
    """Bytes that drip, a gzip bomb of 200 MB, headers without end: when does the call end?"""
    timeout_s = 4.0 if short else 12.0
    async with hostile() as address, Fleet(folder) as fleet:
        await fleet.edge(call_timeout_cap_s=timeout_s)
        routes = json.dumps({"*.example.org": address})
        web = fleet.start("searchbus_web", web_routes=routes, extract_robots="false",
                          tavily_api_keys='["key"]', tavily_url=f"http://{address}",
                          extract_tavily="false")  # fmt: skip
        await fleet.ready("web_extract_content")
        async with Client(fleet.ports, short=short) as client:
            for number in range(4):  # the processes that read pages are up
                page = f"http://page.example.org/page/{number}"
                await client.call("web_extract_content", {"urls": [page]})
            at_start = _tree_mib(web.pid)
            most = at_start
            worst_s = 0.0
            untyped = 0
            for kind in ("drip", "headers", "bomb"):
                started_s = time.monotonic()
                call = asyncio.create_task(client.call(
                    "web_extract_content", {"urls": [f"http://{kind}.example.org/{kind}/page"]},
                    deadline_s=timeout_s + 20,
                ))  # fmt: skip
                while not call.done():
                    most = max(most, _tree_mib(web.pid))
                    await asyncio.sleep(0.02)
                worst_s = max(worst_s, time.monotonic() - started_s)
                untyped += (await call).kind in ("silent", "late", "lost", "refused")
            alive = web.poll() is None
    return [
        at_most(
            "8",
            f"end of the slowest call; its deadline is {timeout_s:g} s",
            worst_s,
            timeout_s + 0.25,
            "s",
        ),
        at_most("8", "calls without an answer or a typed error", untyped + (not alive), 0),
        at_most("8", "memory that the service added at most", most - at_start, 24, "MiB"),
    ]


def _tree_mib(pid: int) -> float:
    total = 0.0
    for process in [psutil.Process(pid), *descendants(pid)]:
        try:
            total += process.memory_info().rss / 2**20
        except psutil.NoSuchProcess:
            continue
    return total


async def scraper_blocked(
    folder: Path, *, short: bool, before_s: float = 40.0, blocked_s: float = 40.0,
    after_s: float = 60.0,
) -> list[Measurement]:  # fmt: skip
    """One of three scrapers is blocked by its provider, and later not any more.

    At the shipped pace, and a third of what the three can send. With as few searches as a short run
    has, the slowest one before may be quicker than the pace: then twice the interval is the gate.
    """
    if short:
        before_s, blocked_s, after_s = 6.0, 12.0, 12.0
    interval_s = DdgSettings().ddg_min_interval_s
    rate_per_s = 1 / interval_s
    ddg = FakeDuckDuckGo(latency_s=0.2)

    async def searches(client: Client, seconds: float, words: str) -> list[Outcome]:
        return await _searches(client, round(seconds * rate_per_s), rate_per_s, words)

    async with serve(ddg.app) as url, Fleet(folder) as fleet:
        await fleet.edge()
        await fleet.scrapers(
            url, 3, ddg_interval_s=DdgSettings().ddg_interval_s, ddg_min_interval_s=interval_s
        )
        async with Client(fleet.ports, short=short) as client:
            before = await searches(client, before_s, "before")
            ddg.blocked = {"127.0.0.12"}
            during = await searches(client, blocked_s, "blocked")
            ddg.blocked = set()
            seen = len(ddg.requests)
            after = await searches(client, after_s, "after")
            give_up_s = time.monotonic() + 2 * blocked_s + 60
            rejoined = False
            while not rejoined and time.monotonic() < give_up_s:
                # A probe comes alone; a worker that takes calls comes again and again.
                new = ddg.requests[seen:]
                rejoined = sum(address == "127.0.0.12" for _, address, _ in new) > 2
                if not rejoined:
                    await searches(client, 10.0, f"more {len(new)}")
    gate_s = 2 * max(interval_s, _p99_s(before))
    return [
        at_most("21", f"failed of {len(during)} searches, one of 3 scrapers blocked",
                counts(during)["failed"], 0),
        at_least("21", "the scraper works again by itself", int(rejoined), 1),
        at_most("26", f"failed of {len(after)} searches, when it is free again",
                counts(after)["failed"], 0),
        at_most("26", "p99 while it is blocked", _p99_s(during), gate_s, "s"),
        at_most("26", "p99 when it is free again", _p99_s(after), gate_s, "s"),
    ]  # fmt: skip


def _p99_s(outcomes: Sequence[Outcome]) -> float:
    took_s = sorted(outcome.took_s for outcome in outcomes)
    return took_s[int(0.99 * len(took_s))]


async def scrapers_for_long(
    folder: Path, *, short: bool, seconds: float = 30.0
) -> list[Measurement]:
    """Six scrapers, one of them blocked all the time; consumers on the server must not grow."""
    ddg = FakeDuckDuckGo(latency_s=0.02)
    async with serve(ddg.app) as url, Fleet(folder) as fleet:
        await fleet.edge()
        await fleet.scrapers(url, 6)
        ddg.blocked = {"127.0.0.13"}
        async with Client(fleet.ports, short=short) as client:
            await _searches(client, 24, 4.0, "warm")
            before = _consumers(fleet)
            searches = await _searches(client, round(2 * seconds), 2.0, "long")
            after = _consumers(fleet)
    return [
        at_most("22", f"failed of {len(searches)} searches, one of 6 scrapers blocked",
                counts(searches)["failed"], 0),
        at_most("22", f"consumers added on the server in {seconds:.0f} s", after - before, 0),
    ]  # fmt: skip


async def _searches(client: Client, count: int, rate_per_s: float, words: str) -> list[Outcome]:
    """Searches that no cache knows; they come at random."""
    chance = random.Random(words)
    tasks = []
    for number in range(count):
        query = f"{words} {number} {chance.randrange(10**9)}"
        tasks.append(asyncio.create_task(
            client.call("web_search", {"query": query}, deadline_s=30)
        ))  # fmt: skip
        await asyncio.sleep(chance.expovariate(rate_per_s))
    return list(await asyncio.gather(*tasks))


def _consumers(fleet: Fleet) -> int:
    page: dict[str, Any] = monitor(fleet.monitors()[0], "jsz")
    return int(page.get("consumers", 0))
