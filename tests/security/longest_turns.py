"""The table of longest turns in docs/security.md: `python -m tests.security.longest_turns`.

What the tests check, each input once more, with its size and the longest turn that it took. It runs
them as tests, whose fixtures start the edge and the readers of pages.
"""

from __future__ import annotations

import asyncio
import sys

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
    from searchbus_upstream import Reply, SharedCache
    from searchbus_web.extraction.extractor import Extractor
    from searchbus_web.extraction.fetching import FetchedPage
    from searchbus_web.extraction.pool import ReaderPool
    from searchbus_web.extraction.robots import Robots

    from .test_loop_of_web import longest_turn_s

    rows = []
    async with ReaderPool(1, timeout_s=5.0) as pool:
        await pool.ready()
        for name, (body, media_type) in PAGES.items():

            class Fetcher:
                async def fetch(self, url, *, timeout_s, caller, page=(body, media_type)):
                    return FetchedPage(url, *page, None)

            extractor = Extractor(Fetcher(), pool, SharedCache())
            turn_s = await longest_turn_s(
                extractor.extract([f"http://a.example.org/{len(rows)}"], timeout_s=60.0)
            )
            rows.append((turn_s, f"web, page of {name}", len(body)))
        for name, rules in RULES.items():

            class Client:
                async def send(self, request, *, timeout_s, max_bytes, rules=rules):
                    return Reply(200, rules)

            robots = Robots(Client(), pool, "searchbus/0.1")
            turn_s = await longest_turn_s(robots.allows("http://a.example.org/" + "ab" * 2000, 60))
            rows.append((turn_s, f"web, robots.txt of {name}", len(rules)))
    _print(sorted(rows, reverse=True)[:SHOWN])


def _print(rows: list[tuple[float, str, int]]) -> None:
    print(f"\n(the unit of this machine: {unit_s() * 1000:.1f} ms)")
    for turn_s, name, size in rows:
        print(f"| {name} | {size / 1024:,.0f} KiB | {turn_s * 1000:.0f} ms |")


if __name__ == "__main__":
    sys.exit(pytest.main(["-q", "-s", "-n0", "-p", "no:cacheprovider", __file__]))
