"""The largest and worst inputs do not block the loop of the web service.

What is measured is the CPU time of the loop's thread between two turns of the loop, in units of a
calibration on the same machine: 100 ms on the machine where it was set.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable

import pytest

from searchbus_contracts import Actor
from searchbus_upstream import Reply, SharedCache
from searchbus_web.extraction.extractor import Extractor
from searchbus_web.extraction.fetching import MAX_BYTES, FetchedPage
from searchbus_web.extraction.pool import ReaderPool
from searchbus_web.extraction.robots import Robots
from searchbus_web.metasearch import Metasearch
from searchbus_web.providers.base import Query, SearchResults
from searchbus_web.results import Result, iso_date


def filled(unit: bytes, size: int = MAX_BYTES) -> bytes:
    return (unit * (size // len(unit) + 1))[:size]


PAGES = {
    "images": (filled(b"!["), "text/plain"),
    "one letter": (filled(b"a"), "text/plain"),
    "tags": (filled(b"<a "), "text/plain"),
    "no text": (filled("\u200d".encode()), "text/plain"),
    "markdown": (filled(b"](&"), "text/markdown"),
    "json": (filled(b"["), "application/json"),
    "nested": (filled(b"<div>"), "text/html"),
    "attributes": (b"<p " + filled(b"a=1 ") + b">", "text/html"),
    "latin": (filled(b"\xe9\xff"), "text/plain"),
}
RULES = {
    "rules": filled(b"User-agent: *\nDisallow: /*a*b*c$\n", 512 * 1024),
    "wildcards": b"User-agent: *\nDisallow: /" + filled(b"*a", 500 * 1024),
}


def unit_s() -> float:
    """CPU seconds of a fixed piece of work, the least of five; about 10 ms."""
    taken = []
    for _ in range(5):
        start_s = time.thread_time()
        sum(n * n for n in range(150_000))
        taken.append(time.thread_time() - start_s)
    return min(taken)


async def longest_turn_s(work) -> float:
    """The most CPU time of this thread between two turns of the loop while `work` runs."""
    longest = 0.0
    done = False

    async def watch() -> None:
        nonlocal longest
        last_s = time.thread_time()
        while not done:
            await asyncio.sleep(0)
            now_s = time.thread_time()
            longest = max(longest, now_s - last_s)
            last_s = now_s
            await asyncio.sleep(0.001)

    watching = asyncio.create_task(watch())
    await asyncio.sleep(0)
    await work
    done = True
    await watching
    return longest


async def check_turns(make_work: Callable[[], Awaitable[object]], *, units: float = 10) -> None:
    """One of a few attempts, each beside a unit of its own moment, since other work slows both.

    Args:
        make_work: what runs, without a cache of an earlier attempt.
    """
    found = []
    for _ in range(5):
        limit_s = units * unit_s()
        turn_s = await longest_turn_s(make_work())
        if turn_s < limit_s:
            return
        found.append((turn_s, limit_s))
    pytest.fail(f"longest turns and their limits in seconds: {found}")


@pytest.mark.slow
@pytest.mark.parametrize("name", PAGES)
async def test_no_page_blocks_the_loop(name):
    """At the largest size, from its bytes to its answer."""
    body, media_type = PAGES[name]

    class Fetcher:
        async def fetch(self, url, *, timeout_s, caller):
            return FetchedPage(url, body, media_type, None)

    async with ReaderPool(1, timeout_s=30.0) as pool:
        await pool.ready()

        def extract() -> Awaitable[object]:
            extractor = Extractor(Fetcher(), pool, SharedCache())
            return extractor.extract(["http://a.example.org/"], timeout_s=120.0)

        await check_turns(extract)


@pytest.mark.slow
@pytest.mark.parametrize("name", RULES)
async def test_no_robots_txt_blocks_the_loop(name):
    """Nor with the longest URL."""

    class Client:
        async def send(self, request, *, timeout_s, max_bytes):
            return Reply(200, RULES[name])

    async with ReaderPool(1, timeout_s=30.0) as pool:
        await pool.ready()
        url = "http://a.example.org/" + "ab" * 2000
        await check_turns(lambda: Robots(Client(), pool, "searchbus/0.1").allows(url, 60.0))


@pytest.mark.slow
async def test_no_results_block_the_loop():
    """Thousands of them, with megabytes of title, snippet, URL and date."""
    huge = "![" * 500_000
    rows = [Result(huge, f"http://a{n}.org/", huge, iso_date(huge)) for n in range(3000)]
    rows.append(Result("a", "http://a.org/" + huge, huge))

    class Provider:
        name, group, weight, usable = "fake", "fake", 1.0, True

        async def search(self, query, *, actor, timeout_s):
            return SearchResults(())

    found = SearchResults(tuple(rows))

    async def search_one(*_):
        return found

    def search() -> Awaitable[object]:
        metasearch = Metasearch([Provider()], SharedCache())
        metasearch._search_one = search_one
        return metasearch.search(Query("q", 10), actor=Actor(), timeout_s=60.0)

    await check_turns(search, units=30)
