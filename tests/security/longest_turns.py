"""The table of longest turns in docs/security.md: `python -m tests.security.longest_turns`.

The inputs of the tests, each with its size and the longest turn that it took: the tests count lines
of Python, this measures CPU time, which no test compares with a limit. It runs as tests, whose
fixtures start the edge and the readers of pages.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Awaitable

import pytest

from .loop_watch import unit_s, watching
from .test_large_requests import REVISIONS, WHOLE, WORST, post, worst
from .test_loop_of_web import PAGES, RULES

ROUNDS = 3
SHOWN = 8


async def test_edge(port, monkeypatch) -> None:
    """The slowest requests over all revisions."""
    rows = []
    for name in (*WORST, *WHOLE):
        for revision in REVISIONS:
            body, headers = worst(name, revision)
            turns_s = []
            for _ in range(ROUNDS):
                with watching(monkeypatch) as watch:
                    await asyncio.to_thread(post, port, body, headers=headers)
                turns_s.append(watch.worst_s)
            rows.append((min(turns_s), f"edge, {name}", len(body)))
    slowest = {name: (turn_s, name, size) for turn_s, name, size in sorted(rows)}
    _print(sorted(slowest.values(), reverse=True)[:SHOWN])


async def test_web() -> None:
    """Every page and every robots.txt."""

    from searchbus_contracts import Actor
    from searchbus_upstream import HttpReply, SharedCache
    from searchbus_web.extraction.extractor import Extractor
    from searchbus_web.extraction.fetching import Robots
    from searchbus_web.extraction.pool import ReaderPool
    from searchbus_web.extraction.reading import PageBytes

    rows = []
    async with ReaderPool(1, timeout_s=5.0) as pool:
        await pool.ready()
        for name, (body, media_type) in PAGES.items():

            class Fetcher:
                async def fetch(self, url, *, timeout_s, page=(body, media_type), **_):
                    return PageBytes(url, *page, None)

            extractor = Extractor(Fetcher(), pool, SharedCache())
            turn_s = await longest_turn_s(
                extractor.extract(
                    [f"http://a.example.org/{len(rows)}"], timeout_s=60.0, actor=Actor()
                )
            )
            rows.append((turn_s, f"web, page of {name}", len(body)))
        for name, rules in RULES.items():

            class Client:
                async def send(self, request, *, timeout_s, max_bytes, rules=rules):
                    return HttpReply(200, rules)

            robots = Robots(Client(), pool)
            turn_s = await longest_turn_s(robots.allows("http://a.example.org/" + "ab" * 2000, 60))
            rows.append((turn_s, f"web, robots.txt of {name}", len(rules)))
    _print(sorted(rows, reverse=True)[:SHOWN])


async def longest_turn_s(work: Awaitable[object]) -> float:
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


def _print(rows: list[tuple[float, str, int]]) -> None:
    print(f"\n(the unit of this machine: {unit_s() * 1000:.1f} ms)")
    for turn_s, name, size in rows:
        print(f"| {name} | {size / 1024:,.0f} KiB | {turn_s * 1000:.0f} ms |")


if __name__ == "__main__":
    sys.exit(pytest.main(["-q", "-s", "-n0", "-p", "no:cacheprovider", __file__]))
