"""The largest and worst inputs do not block the loop of the web service.

What counts is the lines of Python in one turn of the loop: as many on every machine.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine

import pytest

from searchbus_contracts import Actor
from searchbus_upstream import HttpReply, SharedCache
from searchbus_web.extraction.extractor import Extractor
from searchbus_web.extraction.fetching import MAX_BYTES, Robots
from searchbus_web.extraction.pool import ReaderPool
from searchbus_web.extraction.reading import PageBytes
from searchbus_web.metasearch import Metasearch
from searchbus_web.providers.base import Query, Result, SearchResults, iso_date

from .loop_watch import counting_lines

MAX_LINES = 100_000
"""A pass over a page or a robots.txt would be millions; a page takes a few hundred."""
MAX_LINES_OF_A_RESULT = 4000
"""A pass over one of these results would be a million."""


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


async def check_turns(
    work: Coroutine[None, None, object],
    monkeypatch: pytest.MonkeyPatch,
    *,
    max_lines: int = MAX_LINES,
) -> None:
    """No turn of the loop runs more lines while `work` does."""
    with counting_lines(monkeypatch) as lines:
        await asyncio.create_task(work)
    assert 0 < lines.worst < max_lines


@pytest.mark.slow
@pytest.mark.parametrize("name", PAGES)
async def test_no_page_blocks_the_loop(name, monkeypatch):
    """At the largest size, from its bytes to its answer."""
    body, media_type = PAGES[name]

    class Fetcher:
        async def fetch(self, url, **_):
            return PageBytes(url, body, media_type, None)

    async with ReaderPool(1, timeout_s=30.0) as pool:
        await pool.ready()

        extractor = Extractor(Fetcher(), pool, SharedCache())
        extracting = extractor.extract(["http://a.example.org/"], timeout_s=120.0, actor=Actor())
        await check_turns(extracting, monkeypatch)


@pytest.mark.slow
@pytest.mark.parametrize("name", RULES)
async def test_no_robots_txt_blocks_the_loop(name, monkeypatch):
    """Nor with the longest URL."""

    class Client:
        async def send(self, request, *, timeout_s, max_bytes):
            return HttpReply(200, RULES[name])

    async with ReaderPool(1, timeout_s=30.0) as pool:
        await pool.ready()
        url = "http://a.example.org/" + "ab" * 2000
        reading = Robots(Client(), pool).allows(url, 60.0)
        await check_turns(reading, monkeypatch)


@pytest.mark.slow
async def test_no_results_block_the_loop(monkeypatch):
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

    metasearch = Metasearch([Provider()], SharedCache())
    metasearch._search_one = search_one
    searching = metasearch.search(Query("q", 10), actor=Actor(), timeout_s=60.0)
    await check_turns(searching, monkeypatch, max_lines=len(rows) * MAX_LINES_OF_A_RESULT)
