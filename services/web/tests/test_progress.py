"""Progress of a search and of pages: one event for each that is done."""

from __future__ import annotations

import asyncio

import pytest

from searchbus_web.progress import each_reported


async def test_search_reports_every_provider(web):
    """Also one that failed; how many there are, and which one it was."""
    await web.start(
        web_providers=("tavily", "brave"), tavily_api_keys=("key500",), brave_api_keys=("k",)
    )
    events = []
    await web.call("web_search", query="whales", on_event=events.append)
    assert [(e.kind, e.progress, e.total) for e in events] == [
        ("progress", 1, 2), ("progress", 2, 2)
    ]  # fmt: skip
    assert {e.message for e in events} == {"searched tavily", "searched brave"}


async def test_extraction_reports_every_page(web):
    """Also one that could not be read; each by the URL that was requested."""
    await web.start()
    events = []
    paths = ["/article", "/missing", "/notes.txt"]
    items = await web.extract(*paths, on_event=events.append)
    assert [item["status"] for item in items] == ["ok", "http_404", "ok"]
    assert [(e.progress, e.total) for e in events] == [(1, 3), (2, 3), (3, 3)]
    assert {e.message for e in events} == {f"read http://pages.example.org{p}" for p in paths}


async def test_long_url_is_cut_in_the_message(web):
    """A message is a line for people."""
    await web.start()
    events = []
    await web.extract("/" + "a" * 2000, on_event=events.append)
    assert len(events[0].message) <= 210


async def test_cancelled_work_reports_nothing():
    """Its caller has left."""
    done = []

    async def on_done(name: str) -> None:
        done.append(name)

    started = asyncio.Event()

    async def work() -> None:
        started.set()
        await asyncio.Event().wait()

    running = asyncio.create_task(each_reported([("a", work())], on_done))
    await started.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert done == []
