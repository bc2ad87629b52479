"""Crawls by two workers on a secured bus: one pace for a host, and what a killed worker leaves."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

import psutil
import pytest
from mcp import Client
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from searchbus_testing import Stack, serve, until

pytestmark = pytest.mark.slow
PAGES = 24
DELAY_S = 0.25


@dataclass
class Site:
    """A page with links to all others; when each page was requested, in seconds."""

    requests: list[tuple[float, str]] = field(default_factory=list)

    async def page(self, request: Request) -> Response:
        path = request.url.path
        if path == "/robots.txt":
            return Response("", media_type="text/plain")
        self.requests.append((time.monotonic(), path))
        links = " ".join(f'<a href="/{n}">{n}</a>' for n in range(1, PAGES))
        text = f"The page {path} says something of its own about itself, four times. " * 4
        body = f"<html><title>Page {path}</title><article><p>{text}</p></article>{links}</html>"
        return Response(body, media_type="text/html")

    @property
    def gaps_s(self) -> list[float]:
        """Between each request and the next but one: the times of two may be blurred."""
        times = [at for at, _ in self.requests]
        return [later - first for first, later in zip(times, times[2:], strict=False)]


@pytest.fixture
async def crawled(start_stack, tmp_path) -> AsyncIterator[tuple[Stack, Site, str]]:
    """A stack with two web workers, and a site."""
    site = Site()
    async with serve(Starlette(routes=[Route("/{path:path}", site.page)])) as url:
        place = url.removeprefix("http://")
        stack = await asyncio.to_thread(
            start_stack, tmp_path, "--secure", "--scale", "web=2",
            SEARCHBUS_WEB_ROUTES=json.dumps({"*.example.org": place}),
            SEARCHBUS_CRAWL_DELAY_S=str(DELAY_S),
        )  # fmt: skip
        yield stack, site, place
        for name in ("web", "web-2", "retrieval"):
            log = (stack.data / "logs" / f"{name}.log").read_text()
            assert "violation" not in log.lower(), log


async def crawl(stack: Stack, collection: str, **arguments) -> dict:
    given = {"url": "http://www.example.org/", "collection": collection, **arguments}
    async with Client(stack.url + "/mcp/sites", read_timeout_seconds=300.0) as client:
        found = await client.call_tool("crawl", given)
    assert not found.is_error, found.content[0].text
    return found.structured_content


def crawling(stack: Stack, place: str) -> tuple[str, int] | None:
    """The worker that is connected to the site, and its process."""
    port = int(place.rpartition(":")[2])
    for name in ("web", "web-2"):
        pid = stack.state["processes"][name]
        if any(c.raddr and c.raddr.port == port for c in psutil.Process(pid).net_connections()):
            return name, pid
    return None


async def test_killed_worker_and_the_pace_of_a_host(crawled):
    """kill -9 of the worker in the middle: the call ends with every page stored once.

    Two crawls at the same time, by whichever workers: their requests keep the host's pace.
    """
    stack, site, place = crawled
    running = asyncio.create_task(crawl(stack, "killed"))

    def found() -> tuple[str, int] | None:
        return crawling(stack, place) if len(site.requests) >= 6 else None

    name, killed = await until(found, timeout_s=300)
    os.kill(killed, signal.SIGKILL)
    report = await running
    assert report["stored"] + report.get("unchanged", 0) == PAGES
    assert not report.get("truncated", False)
    # Those of the last two seconds before the kill may be fetched again.
    assert len(site.requests) < 2 * PAGES

    await until(lambda: stack.state["processes"][name] != killed, timeout_s=300)
    again = await crawl(stack, "killed")
    assert (again["unchanged"], again.get("stored", 0)) == (PAGES, 0)
    site.requests.clear()
    started_s = time.monotonic()
    both = [crawl(stack, name, maxPages=12) for name in ("first", "second")]
    reports = await asyncio.gather(*both)
    assert [report["stored"] for report in reports] == [12, 12]
    assert len(site.requests) == 24
    # All together: a busy machine may deliver a few requests at once that were sent one by one.
    assert site.requests[-1][0] - started_s >= 0.8 * DELAY_S * (len(site.requests) - 1)
