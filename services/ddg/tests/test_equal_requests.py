"""Equal requests at the same time, of an upstream that is silent or refuses; on the virtual clock."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace

import pytest
from tests.simulation.world import simulated

from searchbus_bus.store.keyvalue import MemoryKeyValue
from searchbus_contracts import Actor
from searchbus_contracts.web import WebSearchReply, WebSearchRequest
from searchbus_ddg.duckduckgo import DuckDuckGo
from searchbus_ddg.egress import Egress
from searchbus_ddg.outcome import out_of_time
from searchbus_ddg.search import PageClient, ScrapedSearch
from searchbus_ddg.settings import DdgSettings
from searchbus_upstream import HttpReply, Pace, SharedCache, UpstreamTimeoutError
from searchbus_upstream.cache import LEASE_TTL_S

PAGE = b'<div class=result><a class=result__a href="https://a.org/">A</a></div></html>'


class Upstream:
    """It gives these replies after a twentieth of a second, and then none."""

    def __init__(self, *replies: HttpReply) -> None:
        self.replies, self.sent = list(replies), 0

    async def send(self, request, *, timeout_s, max_bytes):
        self.sent += 1
        if self.replies:
            await asyncio.sleep(0.05)
            return self.replies.pop(0)
        await asyncio.sleep(timeout_s)
        raise UpstreamTimeoutError("no answer")


class Timed:
    """A call whose time passes."""

    actor = Actor(subject="a")

    def __init__(self, timeout_s: float) -> None:
        self.end_s = asyncio.get_running_loop().time() + timeout_s

    @property
    def remaining_s(self) -> float:
        return self.end_s - asyncio.get_running_loop().time()


class Others:
    """A fleet with healthy workers, and the bus to them; the first requests find them silent."""

    key = "own"
    subjects = SimpleNamespace(endpoint=lambda service, verb: f"t.v1.{service}.{verb}")

    def __init__(self, silent: int = 0) -> None:
        self.silent, self.refused = silent, []

    async def leave_to_others(self) -> bool:
        return True

    async def request(self, subject, request, reply_type, *, timeout_s, **options):
        self.refused.append(request.refused)
        if len(self.refused) <= self.silent:
            await asyncio.sleep(timeout_s - 0.2)
            raise out_of_time()
        return WebSearchReply(results=(), provider="duckduckgo", fetched_at_ms=1)


def worker(
    client: Upstream, cache: SharedCache, others: Others | None = None, **settings: float
) -> DuckDuckGo:
    egress = Egress("test", client, Pace(0.0))
    pages = PageClient(client, html_url="https://html.example/", lite_url="https://x.example/")
    others = others or Others()
    scraped = ScrapedSearch(egress, pages)
    return DuckDuckGo(others, egress, scraped, others, cache, DdgSettings(**settings))


def caches(workers: int) -> list[SharedCache]:
    """Those of workers that share a store."""
    clock = asyncio.get_running_loop().time
    buckets = MemoryKeyValue(ttl_s=600, clock=clock), MemoryKeyValue(ttl_s=LEASE_TTL_S, clock=clock)
    return [SharedCache(*buckets) for _ in range(workers)]


async def ask(at: DuckDuckGo, tool: str, timeout_s: float, after_s: float = 0.0):
    await asyncio.sleep(after_s)
    call = Timed(timeout_s)
    if tool == "search":
        return await at.search(call, WebSearchRequest(query="cats"))
    return await at.instant(call, "cats")


@pytest.mark.parametrize("workers", [1, 80])
@pytest.mark.parametrize("tool", ["search", "instant"])
@simulated
async def test_equal_requests_ask_a_silent_upstream_one_after_the_other(tool, workers):
    """Whoever waited has less time left than the one who asked: a request would be lost as well."""
    client = Upstream()
    asked = [worker(client, cache) for cache in caches(workers)]
    calls = (ask(asked[n % workers], tool, 9.0, 0.5 * n) for n in range(80))
    outcomes = await asyncio.gather(*calls, return_exceptions=True)
    assert {fault.code for fault in outcomes} == {"deadline_exceeded"}
    assert client.sent <= 6


@pytest.mark.parametrize("tool", ["search", "instant"])
@simulated
async def test_a_stale_answer_comes_within_the_time_of_each_who_waits(tool):
    """Also of one who waits for a request with more time; the reply needs some of it as well."""
    known = HttpReply(200, PAGE if tool == "search" else b'{"Answer": "42"}')
    client = Upstream(known)
    (cache,) = caches(1)
    at = worker(client, cache, ddg_cache_ttl_s=0.0, ddg_instant_cache_ttl_s=0.0)
    await ask(at, tool, 9.0)

    async def in_time(timeout_s: float, after_s: float) -> bool:
        async with asyncio.timeout(after_s + timeout_s - 0.05):
            found = await ask(at, tool, timeout_s, after_s)
        return found.stale if tool == "search" else found[1] is not None

    for times in ((20.0, 5.0, 5.0), (5.0,)):
        found = await asyncio.gather(*(in_time(left_s, n) for n, left_s in enumerate(times)))
        assert found == [True] * len(times)
    assert client.sent == 3


LIMITED = HttpReply(429, b"")


@pytest.mark.parametrize(("hurried_s", "silent"), [(0.4, 0), (3.0, 1)])
@simulated
async def test_a_refusal_with_little_time_left_loses_no_equal_search(hurried_s, silent):
    """Others are free: who waits is sent to them, as one whose query was refused before."""
    client, others = Upstream(LIMITED), Others(silent)
    (cache,) = caches(1)
    at = worker(client, cache, others)
    times = (hurried_s, 20.0, 20.0)
    hurried, *patient = await asyncio.gather(
        *(ask(at, "search", left_s) for left_s in times), return_exceptions=True
    )
    assert hurried.code == "deadline_exceeded"
    assert [reply.provider for reply in patient] == ["duckduckgo"] * 2
    assert (client.sent, others.refused) == (1, [True] * (silent + 1))


@simulated
async def test_a_query_that_was_refused_late_is_sent_once_more_at_most():
    """By those who wait at another worker, too: else each address would be refused for it."""
    client, others = Upstream(LIMITED, LIMITED), Others()
    here, there = (worker(client, cache, others) for cache in caches(2))
    hurried, *patient = await asyncio.gather(
        ask(here, "search", 0.4),
        *(ask(there, "search", 20.0, 0.01) for _ in range(2)),
        return_exceptions=True,
    )
    assert [hurried.code, *(fault.code for fault in patient)] == (
        ["deadline_exceeded"] + ["upstream_blocked"] * 2
    )
    assert all("Change the query" in fault.failure.message for fault in patient)
    assert (client.sent, others.refused) == (2, [])
